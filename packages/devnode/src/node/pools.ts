import type { FullPoolKey, PoolInfo } from "@org/sandboxd-client/wire";
import type { Capture } from "../host/capture-store.ts";
import type { Guest } from "../host/guest.ts";
import type { DevNodeLogger } from "../logger.ts";
import { keyText } from "./pool-key.ts";
import type { IdlePolicy } from "./sandbox.ts";
import { createStartSlots } from "./start-slots.ts";

/** One pool as it is configured. */
export interface PoolConfig extends IdlePolicy {
  readonly key: FullPoolKey;
  readonly warm: number;
  /** Above `warm` the target follows demand up to this. 0 keeps it at `warm`. */
  readonly warmMax: number;
}

/** Options of {@link createPools}. */
export interface PoolsOptions {
  /** Starts a guest for a key, from captured files when there are any. */
  readonly start: (key: FullPoolKey, how: StartOptions) => Promise<Guest>;
  /** Wait between a claim and the refill, in milliseconds. */
  readonly refillDelayMs: number;
  /** Guests that start at once. */
  readonly startConcurrency: number;
  readonly logger: DevNodeLogger;
  readonly now: () => number;
}

/** How a guest starts. */
export interface StartOptions {
  readonly capture?: Capture | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The warm pools of a node. */
export interface Pools {
  /** Replaces all pools; resolves when surplus guests are gone. */
  configure(configs: readonly PoolConfig[]): Promise<void>;
  /** A ready guest of this key, which leaves the pool. */
  take(key: FullPoolKey): Guest | undefined;
  /**
   * Starts a guest for a claim, before any refill. `clone`: from captured files, or the pool has built one before. A
   * claim that is aborted while it waits for its turn starts nothing.
   */
  provision(
    key: FullPoolKey,
    signal: AbortSignal,
    capture?: Capture,
  ): Promise<{ readonly guest: Guest; readonly tier: "clone" | "cold" }>;
  has(key: FullPoolKey): boolean;
  /** True when a pool of this node has built a guest of this key. */
  golden(key: FullPoolKey): boolean;
  /** True when a pool of any lane and size has this template. */
  names(template: string): boolean;
  policy(key: FullPoolKey): IdlePolicy | undefined;
  /** Destroys ready guests and stops filling; undo with `false`. */
  drain(on: boolean): Promise<void>;
  snapshot(): readonly PoolInfo[];
  /** Why no more guests can be started right now. */
  readonly parked: string | undefined;
  close(): Promise<void>;
}

interface Pool {
  config: PoolConfig;
  readonly ready: Guest[];
  refilling: number;
  built: boolean;
  /** Times of recent claims, for a target that follows demand. */
  claims: number[];
  timer: NodeJS.Timeout | undefined;
}

/** How long filling rests after the host could not start a guest. */
const PARK_MS = 30_000;
/** Claims younger than this make the demand. */
const DEMAND_WINDOW_MS = 60_000;

/** Makes an empty set of pools. */
export function createPools(options: PoolsOptions): Pools {
  const { logger, now } = options;
  const pools = new Map<string, Pool>();
  const slots = createStartSlots(options.startConcurrency);
  const running = new Set<Promise<unknown>>();
  let draining = false;
  let closed = false;
  let parked: { readonly until: number; readonly reason: string } | undefined;
  let parkTimer: NodeJS.Timeout | undefined;

  const target = (pool: Pool): number => {
    const { warm, warmMax } = pool.config;
    if (warmMax <= warm) {
      return warm;
    }
    const since = now() - DEMAND_WINDOW_MS;
    pool.claims = pool.claims.filter((time) => time >= since);
    return Math.min(warmMax, Math.max(warm, pool.claims.length));
  };
  const isCurrent = (pool: Pool): boolean => pools.get(keyText(pool.config.key)) === pool;
  const isParked = (): boolean => parked !== undefined && parked.until > now();

  const park = (reason: string): void => {
    parked = { until: now() + PARK_MS, reason };
    clearTimeout(parkTimer);
    parkTimer = setTimeout(fillAll, PARK_MS);
    parkTimer.unref();
  };

  const watch = async (pool: Pool, guest: Guest): Promise<void> => {
    const reason = await guest.ended;
    const at = pool.ready.indexOf(guest);
    if (at !== -1) {
      pool.ready.splice(at, 1);
      logger.warn({ key: pool.config.key, reason }, "warm guest ended by itself");
      schedule(pool);
    }
  };

  const refill = async (pool: Pool): Promise<void> => {
    let guest: Guest | undefined;
    try {
      guest = await slots.run(false, async () =>
        closed || draining || !isCurrent(pool) || isParked() ? undefined : await options.start(pool.config.key, {}),
      );
    } catch (error) {
      if (!closed) {
        logger.error({ key: pool.config.key, err: error }, "pool refill failed");
        park(error instanceof Error ? error.message : String(error));
      }
    } finally {
      pool.refilling -= 1;
    }
    if (guest === undefined) {
      return;
    }
    pool.built = true;
    if (closed || draining || !isCurrent(pool) || pool.ready.length >= target(pool)) {
      await guest.destroy();
      return;
    }
    pool.ready.push(guest);
    void watch(pool, guest);
  };

  const lacks = (pool: Pool): boolean =>
    !closed && !draining && !isParked() && isCurrent(pool) && pool.ready.length + pool.refilling < target(pool);
  const fill = (pool: Pool): void => {
    while (lacks(pool)) {
      pool.refilling += 1;
      const run = refill(pool).finally(() => running.delete(run));
      running.add(run);
    }
  };
  function fillAll(): void {
    for (const pool of pools.values()) {
      fill(pool);
    }
  }
  const schedule = (pool: Pool): void => {
    if (pool.timer === undefined && !closed) {
      pool.timer = setTimeout(() => {
        pool.timer = undefined;
        fill(pool);
      }, options.refillDelayMs);
    }
  };
  const empty = async (pool: Pool, keep: number): Promise<void> => {
    await Promise.allSettled(pool.ready.splice(keep).map((guest) => guest.destroy()));
  };

  return {
    configure: async (configs) => {
      const wanted = new Map(configs.map((config) => [keyText(config.key), config]));
      const surplus: Promise<void>[] = [];
      for (const [text, pool] of pools) {
        if (!wanted.has(text)) {
          pools.delete(text);
          clearTimeout(pool.timer);
          surplus.push(empty(pool, 0));
        }
      }
      for (const [text, config] of wanted) {
        const pool = pools.get(text);
        if (pool === undefined) {
          pools.set(text, { config, ready: [], refilling: 0, built: false, claims: [], timer: undefined });
        } else {
          pool.config = config;
          surplus.push(empty(pool, target(pool)));
        }
      }
      fillAll();
      await Promise.allSettled(surplus);
    },
    take: (key) => {
      const pool = pools.get(keyText(key));
      if (pool === undefined || draining) {
        return undefined;
      }
      if (pool.config.warmMax > pool.config.warm) {
        pool.claims.push(now());
      }
      const guest = pool.ready.shift();
      schedule(pool);
      return guest;
    },
    provision: async (key, signal, capture) => {
      const pool = pools.get(keyText(key));
      const tier = capture !== undefined || pool?.built === true ? "clone" : "cold";
      const guest = await slots.run(true, async () => {
        signal.throwIfAborted();
        return options.start(key, { capture, signal });
      });
      if (pool !== undefined) {
        pool.built = true;
      }
      return { guest, tier };
    },
    has: (key) => pools.has(keyText(key)),
    golden: (key) => pools.get(keyText(key))?.built === true,
    names: (template) => [...pools.values()].some((pool) => pool.config.key.template === template),
    policy: (key) => pools.get(keyText(key))?.config,
    drain: async (on) => {
      draining = on;
      if (on) {
        await Promise.allSettled([...pools.values()].map((pool) => empty(pool, 0)));
      } else {
        fillAll();
      }
    },
    snapshot: () =>
      [...pools.values()].map((pool) => ({
        key: pool.config.key,
        warm: pool.ready.length,
        refilling: pool.refilling,
        target: target(pool),
        golden: pool.built,
      })),
    get parked() {
      return isParked() ? parked?.reason : undefined;
    },
    close: async () => {
      closed = true;
      clearTimeout(parkTimer);
      for (const pool of pools.values()) {
        clearTimeout(pool.timer);
      }
      await Promise.allSettled([...pools.values()].map((pool) => empty(pool, 0)));
      await Promise.allSettled(running);
    },
  };
}
