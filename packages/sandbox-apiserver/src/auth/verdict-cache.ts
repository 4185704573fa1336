import type { Timing } from "@org/kubeinventory/client";
import { LRUCache } from "lru-cache";

/** Options of {@link VerdictCache}. */
export interface VerdictCacheOptions<Verdict> {
  /** The most that are kept; those that were not asked for the longest go first. */
  readonly max: number;
  /** How long a verdict is kept, in milliseconds; 0: not at all. */
  readonly ttlMs: (verdict: Verdict) => number;
  readonly timing: Timing;
}

interface Kept<Verdict> {
  readonly verdict: Verdict;
  readonly until: number;
}

/** Keeps verdicts for a while, and asks once for those who wait for the same one. Failures are never kept. */
export class VerdictCache<Verdict> {
  readonly #options: VerdictCacheOptions<Verdict>;
  readonly #kept: LRUCache<string, Kept<Verdict>>;
  readonly #asked = new Map<string, Promise<Verdict>>();

  constructor(options: VerdictCacheOptions<Verdict>) {
    this.#options = options;
    this.#kept = new LRUCache({ max: options.max });
  }

  /**
   * The verdict that is kept, or else the one that `ask` gives. That goes on when the signal fires: others may wait for
   * it, and the next one who asks finds it.
   * @throws what `ask` throws, or the signal's reason
   */
  async get(key: string, ask: () => Promise<Verdict>, signal?: AbortSignal): Promise<Verdict> {
    signal?.throwIfAborted();
    const kept = this.#kept.get(key);
    if (kept !== undefined && this.#options.timing.now() < kept.until) {
      return kept.verdict;
    }
    let asked = this.#asked.get(key);
    if (asked === undefined) {
      asked = this.#ask(key, ask);
      this.#asked.set(key, asked);
    }
    return signal === undefined ? asked : orAborted(asked, signal);
  }

  async #ask(key: string, ask: () => Promise<Verdict>): Promise<Verdict> {
    try {
      const verdict = await ask();
      const ttlMs = this.#options.ttlMs(verdict);
      if (ttlMs > 0) {
        this.#kept.set(key, { verdict, until: this.#options.timing.now() + ttlMs });
      }
      return verdict;
    } finally {
      this.#asked.delete(key);
    }
  }
}

/** What a promise comes to, unless the signal fires before. */
export async function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const gone = Promise.withResolvers<never>();
  const onAbort = (): void => gone.reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([promise, gone.promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
