import type { InventorySource, Logger } from "@org/scale";
import { errorText, type KubeClient, type KubeObject, type Timing } from "@org/kubeinventory/client";
import type { SetPools, WarmPoolCount } from "./node-pools.ts";
import { nodeTargets, type NodeTargets } from "./node-targets.ts";
import { compare, keyText } from "./pool-keys.ts";
import { PoolStatuses } from "./pool-statuses.ts";
import { poolWishes, type PoolWish } from "./pool-wishes.ts";
import type { WarmPool } from "./warm-pool.ts";
import { eachOf } from "./within.ts";

/** What a {@link Reconciler} works with. */
export interface ReconcilerParts {
  readonly client: Pick<KubeClient, "request">;
  readonly source: Pick<InventorySource, "nodeCapacities">;
  /** `undefined` sets nothing on nodes. */
  readonly setPools: SetPools | undefined;
  /** What the watches know, by `<namespace>/<name>`. */
  readonly pools: ReadonlyMap<string, WarmPool>;
  readonly templates: ReadonlyMap<string, KubeObject>;
  /** Asked before everything that only a leader may do. */
  readonly may: () => boolean;
  readonly logger: Logger | undefined;
  readonly timing: Timing;
}

/** Nodes that are called at once. */
const CALLS = 16;

/** Brings nodes to what the pools of the cluster ask for, and tells the pools what there is. */
export class Reconciler {
  readonly #parts: ReconcilerParts;
  readonly #statuses: PoolStatuses;
  /** Problems of pools and nodes that the log was told of, by whose they are. */
  #reported: ReadonlyMap<string, string> = new Map();
  #set = "";

  constructor(parts: ReconcilerParts) {
    this.#parts = parts;
    this.#statuses = new PoolStatuses(parts);
  }

  /**
   * One run. Resolves with whether the pools could be read; if not, nothing was set. Nodes and statuses that fail are
   * left to the next run. Never rejects.
   */
  async run(signal: AbortSignal): Promise<boolean> {
    const { pools, client, templates, timing, logger, may } = this.#parts;
    const ordered = [...pools.values()].toSorted(
      (a, b) => compare(a.namespace, b.namespace) || compare(a.name, b.name),
    );
    let wishes: readonly PoolWish[];
    try {
      wishes = await poolWishes(ordered, { client, templates, timing }, signal);
    } catch (error) {
      if (!signal.aborted) {
        logger?.warn({ err: errorText(error) }, "a template cannot be read: no warm pools are set");
      }
      return false;
    }
    const problems = new Map<string, string>();
    for (const { pool, problem } of wishes) {
      if (problem !== undefined) {
        problems.set(`pool ${pool.key}`, problem);
        this.#report(`pool ${pool.key}`, problem, { pool: pool.key }, "a warm pool asks for nothing");
      }
    }
    const warm = await this.#apply(wishes, problems, signal);
    if (!signal.aborted && may()) {
      await this.#statuses.write(wishes, warm, signal, may);
    }
    this.#reported = problems;
    return true;
  }

  /** Sets the pools of all nodes. Resolves with what is warm in the fleet, by the text of the key. */
  async #apply(
    wishes: readonly PoolWish[],
    problems: Map<string, string>,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, number>> {
    const { source, setPools, logger, may } = this.#parts;
    const nodes = source.nodeCapacities();
    const counts = new Map<string, readonly WarmPoolCount[]>(
      nodes.map(({ node, pools }) => [node, pools.map((pool) => ({ key: pool, warm: pool.warm }))]),
    );
    if (setPools !== undefined) {
      const targets = nodeTargets(nodes, wishes);
      this.#announce(targets);
      await eachOf(targets, CALLS, async ({ node, address, pools }) => {
        if (signal.aborted || !may()) {
          return;
        }
        try {
          counts.set(node, await setPools(address, pools, { signal }));
        } catch (error) {
          if (!signal.aborted) {
            const words = errorText(error);
            problems.set(`node ${node}`, words);
            this.#report(`node ${node}`, words, { node, address }, "the pools of a node were not set");
          }
        }
      });
      logger?.debug({ nodes: targets.length, pools: wishes.length }, "warm pools were set");
    }
    const warm = new Map<string, number>();
    for (const { key, warm: count } of [...counts.values()].flat()) {
      const text = keyText(key);
      warm.set(text, (warm.get(text) ?? 0) + count);
    }
    return warm;
  }

  /** Says what is set when it is something new. */
  #announce(targets: readonly NodeTargets[]): void {
    const totals = new Map<string, number>();
    for (const { template, net, size, warm } of targets.flatMap(({ pools }) => pools)) {
      const name = `${template} ${net} ${size}`;
      totals.set(name, (totals.get(name) ?? 0) + warm);
    }
    const pools = Object.fromEntries(totals);
    const set = JSON.stringify([pools, targets.map(({ node }) => node)]);
    if (set !== this.#set) {
      this.#set = set;
      this.#parts.logger?.info({ nodes: targets.length, pools }, "setting warm pools");
    }
  }

  /** What went wrong before in the same way is worth no second warning. */
  #report(whose: string, problem: string, fields: object, message: string): void {
    const level = this.#reported.get(whose) === problem ? "debug" : "warn";
    this.#parts.logger?.[level]({ ...fields, err: problem }, message);
  }
}
