import type { Logger } from "@org/scale";
import { createNodePoller, type NodePoller, type NodePool } from "@org/sandboxd-client";

/**
 * One member's two polled routes, as bodies: most of them are as they were a tick ago and need no parsing. A reader may
 * put a body into `into`, which is otherwise unused, and must then leave it alone once the call has ended.
 */
export type NodeReader = NodePoller;

/** Options of {@link MeshInventory.start}. Either `pool` with `token`, or `dial`. */
export type MeshInventoryOptions = {
  /** Addresses to learn the mesh from, in order. Repeated ones count once. */
  readonly seeds: readonly string[];
  /** Time from the start of one tick to the next, and bound of a tick, in milliseconds; 0 is the default. @default 10000 */
  readonly pollIntervalMs?: number | undefined;
  /** Failed ticks in a row through which a node stays listed. @default 3 */
  readonly maxStaleTicks?: number | undefined;
  /** Life of the poller. An abort ends it; the last snapshot stays readable. */
  readonly signal: AbortSignal;
  readonly logger?: Logger | undefined;
} & (
  | {
      /** Connections for polls alone: hung polls must not take connections from claims. Stays open. */
      readonly pool: NodePool;
      /** The fleet's root token; absent or empty for open nodes. A secret. */
      readonly token?: string | undefined;
    }
  | {
      /** Makes the reader of one member. No I/O; throws for an address that cannot be dialed. */
      readonly dial: (address: string) => NodeReader;
    }
);

/** {@link MeshInventoryOptions}, checked and completed. */
export interface MeshSettings {
  readonly seeds: readonly string[];
  readonly dial: (address: string) => NodeReader;
  readonly intervalMs: number;
  readonly maxStale: number;
  readonly signal: AbortSignal;
  readonly logger: Logger | undefined;
}

const DEFAULT_INTERVAL_MS = 10_000;
const DEFAULT_MAX_STALE = 3;

/** @throws TypeError for options out of range. */
export function resolveOptions(options: MeshInventoryOptions): MeshSettings {
  const { pollIntervalMs = 0, maxStaleTicks = DEFAULT_MAX_STALE } = options;
  if (!Number.isFinite(pollIntervalMs) || pollIntervalMs < 0 || pollIntervalMs > 2 ** 31 - 1) {
    throw new TypeError("pollIntervalMs must be a positive number of milliseconds");
  }
  if (!Number.isInteger(maxStaleTicks) || maxStaleTicks < 0) {
    throw new TypeError("maxStaleTicks must be a whole number from 0");
  }
  return {
    seeds: [...new Set(options.seeds)],
    dial: "dial" in options ? options.dial : dialThrough(options.pool, options.token),
    intervalMs: pollIntervalMs === 0 ? DEFAULT_INTERVAL_MS : pollIntervalMs,
    maxStale: maxStaleTicks,
    signal: options.signal,
    logger: options.logger,
  };
}

function dialThrough(pool: NodePool, token: string | undefined): (address: string) => NodeReader {
  return (address) => createNodePoller({ address, token, pool });
}
