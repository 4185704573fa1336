import type { Logger } from "@org/scale";
import { errorText, KubeError, type KubeClient, type Timing } from "@org/kubeinventory/client";
import { keyText } from "./pool-keys.ts";
import type { PoolWish } from "./pool-wishes.ts";
import { shares } from "./shares.ts";
import { pathOf, WARM_POOLS, type PoolStatus, type WarmPool } from "./warm-pool.ts";
import { eachOf, within } from "./within.ts";

/** What {@link PoolStatuses} works with. */
export interface StatusParts {
  readonly client: Pick<KubeClient, "request">;
  readonly logger: Logger | undefined;
  readonly timing: Timing;
}

/** Status writes at once. */
const WRITES = 16;
const WRITE_TIMEOUT_MS = 10_000;

/** Writes the statuses of pools, when they changed. */
export class PoolStatuses {
  readonly #parts: StatusParts;
  /** Whether the cluster's resource has the member; an older one drops it, and it would be written for ever. */
  #keepsGeneration = true;

  constructor(parts: StatusParts) {
    this.#parts = parts;
  }

  /**
   * Tells every pool its share of the warm sandboxes. A pool that changed meanwhile is left to the next run.
   * @param warm by the text of the key
   * @param may asked before each write
   */
  async write(
    wishes: readonly PoolWish[],
    warm: ReadonlyMap<string, number>,
    signal: AbortSignal,
    may: () => boolean,
  ): Promise<void> {
    const ready = poolShares(wishes, warm);
    const changed = wishes.filter(
      ({ pool }) => !pool.leaving && this.#differs(pool, statusOf(pool, ready.get(pool.key) ?? 0)),
    );
    await eachOf(changed, WRITES, async ({ pool }) => {
      if (!signal.aborted && may()) {
        await this.#put(pool, statusOf(pool, ready.get(pool.key) ?? 0), signal);
      }
    });
  }

  #differs({ status }: WarmPool, wanted: PoolStatus): boolean {
    return (
      status["replicas"] !== wanted.replicas ||
      status["readyReplicas"] !== wanted.readyReplicas ||
      status["selector"] !== wanted.selector ||
      (this.#keepsGeneration && status["observedGeneration"] !== wanted.observedGeneration)
    );
  }

  async #put(
    { key, namespace, name, object, status }: WarmPool,
    wanted: PoolStatus,
    signal: AbortSignal,
  ): Promise<void> {
    const { client, logger, timing } = this.#parts;
    const path = `${pathOf(WARM_POOLS, namespace)}/${encodeURIComponent(name)}/status`;
    const body = { ...object, status: { ...status, ...wanted } };
    try {
      const reply = await within(timing, WRITE_TIMEOUT_MS, signal, `PUT ${path}`, (life) =>
        client.request({ method: "PUT", path, body, signal: life }),
      );
      if (wanted.observedGeneration !== undefined) {
        this.#keepsGeneration = isGenerationKept(reply);
      }
    } catch (error) {
      const code = error instanceof KubeError ? error.status : undefined;
      const fields = { pool: key, status: code, err: errorText(error) };
      if (code === 409 || code === 404 || signal.aborted) {
        logger?.debug(fields, "a warm pool changed while its status was written");
      } else {
        logger?.warn(fields, "the status of a warm pool was not written");
      }
    }
  }
}

/** What each pool reports, by its key: pools that share a pool of the nodes share what is warm there. */
function poolShares(wishes: readonly PoolWish[], warm: ReadonlyMap<string, number>): Map<string, number> {
  const groups = new Map<string, WarmPool[]>();
  for (const { pool, key } of wishes) {
    if (key !== undefined) {
      const text = keyText(key);
      const group = groups.get(text);
      if (group === undefined) {
        groups.set(text, [pool]);
      } else {
        group.push(pool);
      }
    }
  }
  const ready = new Map<string, number>();
  for (const [text, pools] of groups) {
    const parts = shares(
      warm.get(text) ?? 0,
      pools.map(({ replicas = 0 }) => replicas),
    );
    pools.forEach(({ key }, at) => ready.set(key, parts[at] ?? 0));
  }
  return ready;
}

function statusOf({ name, generation }: WarmPool, ready: number): PoolStatus {
  return {
    replicas: ready,
    readyReplicas: ready,
    selector: `agents.x-k8s.io/warm-pool=${name}`,
    ...(generation === undefined ? {} : { observedGeneration: generation }),
  };
}

function isGenerationKept(reply: unknown): boolean {
  const status = (reply as { readonly status?: { readonly observedGeneration?: unknown } | null } | undefined)?.status;
  return status?.observedGeneration !== undefined;
}
