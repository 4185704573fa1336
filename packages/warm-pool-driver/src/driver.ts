import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { InventorySource, Logger } from "@org/scale";
import {
  errorText,
  pause,
  realTiming,
  Reflector,
  type KubeClient,
  type KubeObject,
  type Timing,
} from "@org/kubeinventory/client";
import { LeaderElection, type Leadership } from "./leader-election.ts";
import { setPoolsOver, type NodeAccess, type SetPools } from "./node-pools.ts";
import { Reconciler } from "./reconciler.ts";
import { RunLoop } from "./run-loop.ts";
import { readWarmPool, TEMPLATES, WARM_POOLS, type WarmPool } from "./warm-pool.ts";

/** Options of {@link runWarmPoolDriver}. */
export interface WarmPoolDriverOptions {
  /** The cluster's API server. Stays open. */
  readonly client: Pick<KubeClient, "request" | "stream">;
  /** The fleet's nodes and what is warm there. */
  readonly source: Pick<InventorySource, "generation" | "nodeCapacities">;
  readonly nodes: NodeAccess;
  /** Namespace of the Lease: that of this program. */
  readonly namespace: string;
  /** Tells this driver from all others, and must be nobody else's. @default the host's name and a random part */
  readonly identity?: string | undefined;
  /** The longest rest between two runs, in milliseconds; 0 is the default. @default 5000 */
  readonly syncIntervalMs?: number | undefined;
  /** Ends the driver. The Lease is not released, and the nodes keep their pools. */
  readonly signal: AbortSignal;
  /** @default silent */
  readonly logger?: Logger | undefined;
  /** The wall clock in milliseconds. @default Date.now */
  readonly clock?: (() => number) | undefined;
  /** For tests. @default real time */
  readonly timing?: Timing | undefined;
}

/** The Lease that the drivers of a cluster compete for. */
const LEASE_NAME = "cocoon-warmpool-driver";

const SYNC_INTERVAL_MS = 5000;
/** After a lost lease the driver begins anew after this, in milliseconds. */
const REBUILD_MS = 5000;
/** How often the source is asked whether it changed, in milliseconds. It answers from memory. */
const LOOK_MS = 250;

/**
 * Keeps the pools of all nodes at what the `SandboxWarmPool` objects of the cluster ask for, while this is the leader of
 * all drivers; waits to become it otherwise, and begins anew after whatever ended its term. It owns the nodes' pools: what
 * no object asks for is dropped. Resolves when the signal has fired and nothing runs any more. Kube specification §5.
 * @throws TypeError for options out of range; nothing else.
 */
export async function runWarmPoolDriver(options: WarmPoolDriverOptions): Promise<void> {
  await driveWarmPools(options, setPoolsOver(options.nodes));
}

/** The driver over any way to set the pools of nodes. */
export async function driveWarmPools(
  options: Omit<WarmPoolDriverOptions, "nodes">,
  setPools: SetPools | undefined,
): Promise<void> {
  const { client, namespace, signal, logger, clock, timing = realTiming, syncIntervalMs = 0 } = options;
  if (!(syncIntervalMs >= 0 && syncIntervalMs < 2 ** 31)) {
    throw new TypeError("syncIntervalMs must be a number of milliseconds from 0");
  }
  const identity = options.identity ?? `${hostname()}_${randomUUID()}`;
  const lease = { namespace, name: LEASE_NAME };
  const election = new LeaderElection({ client, lease, identity, logger, clock, timing });
  if (setPools === undefined) {
    logger?.warn({}, "there is no token for nodes: no warm pools are set");
  }
  const term = new DriverTerm({ ...options, timing, setPools, intervalMs: syncIntervalMs || SYNC_INTERVAL_MS });
  while (!signal.aborted) {
    try {
      await election.term((leadership) => term.lead(leadership), { signal });
    } catch (error) {
      logger?.error({ err: errorText(error) }, "the warm-pool driver failed");
    }
    await pause(timing, REBUILD_MS, signal);
  }
}

interface TermParts {
  readonly client: Pick<KubeClient, "request" | "stream">;
  readonly source: Pick<InventorySource, "generation" | "nodeCapacities">;
  readonly setPools: SetPools | undefined;
  readonly intervalMs: number;
  readonly logger?: Logger | undefined;
  readonly timing: Timing;
}

/** What a leader does: it follows the objects, and runs for every change of them and of the fleet. */
class DriverTerm {
  readonly #parts: TermParts;

  constructor(parts: TermParts) {
    this.#parts = parts;
  }

  async lead({ signal, holds }: Leadership): Promise<void> {
    const { client, source, setPools, intervalMs, logger, timing } = this.#parts;
    const pools = new Map<string, WarmPool>();
    const templates = new Map<string, KubeObject>();
    const reconciler = new Reconciler({ client, source, setPools, pools, templates, may: holds, logger, timing });
    const loop = new RunLoop({ timing, intervalMs, run: (life) => reconciler.run(life) });
    const poolWatch = new Reflector({
      client,
      resource: WARM_POOLS,
      // A pool that is not in a cache yet would drain.
      newest: true,
      logger,
      timing,
      onChanges: ({ changed, removed }) => {
        const removals = removed.filter((key) => pools.delete(key));
        const changes = changed.map(readWarmPool).filter((pool) => {
          const isNew = pools.get(pool.key)?.wish !== pool.wish;
          pools.set(pool.key, pool);
          return isNew;
        });
        // Our own status writes come back as changes that ask for nothing new.
        if (removals.length > 0 || changes.length > 0) {
          loop.want();
        }
      },
    });
    const templateWatch = new Reflector({
      client,
      resource: TEMPLATES,
      newest: true,
      logger,
      timing,
      onChanges: ({ changed, removed }) => {
        for (const key of removed) {
          templates.delete(key);
        }
        for (const template of changed) {
          templates.set(`${template.metadata.namespace ?? ""}/${template.metadata.name}`, template);
        }
        loop.want();
      },
    });
    const watches = Promise.all([poolWatch.run(signal), templateWatch.run(signal)]);
    // Pools that are not known yet would drain: nothing runs before both lists were read.
    await Promise.race([Promise.all([poolWatch.synced, templateWatch.synced]), watches]);
    if (!signal.aborted) {
      await Promise.all([loop.until(signal), this.#followFleet(loop, signal)]);
    }
    await watches;
  }

  /** Asks for a run whenever nodes or their pools changed. Claims alone change what is warm, and entries do not count. */
  async #followFleet(loop: RunLoop, signal: AbortSignal): Promise<void> {
    const { source, timing } = this.#parts;
    let { generation } = source;
    let capacities = source.nodeCapacities();
    while (!signal.aborted) {
      await pause(timing, LOOK_MS, signal);
      if (source.generation !== generation) {
        ({ generation } = source);
        const now = source.nodeCapacities();
        if (now !== capacities) {
          capacities = now;
          loop.want();
        }
      }
    }
  }
}
