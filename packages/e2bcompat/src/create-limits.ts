import { isScaleError } from "@org/scale";
import type { Access } from "./api-keys.ts";
import { E2bError } from "./errors.ts";
import { LIMIT_NAMES } from "./key-limits.ts";
import { SlidingWindow } from "./sliding-window.ts";

const WINDOW_MS = 60_000;
/** When a limit of sandboxes is reached, nobody knows when one ends. Clients ask three times more. */
const RETRY_SECONDS = 1;
const SET_IN = "it is set for this API key in the file of --e2b-api-key-file";

/** What {@link CreateLimits} work with. */
export interface CreateLimitParts {
  readonly accesses: readonly Access[];
  /** How many sandboxes a namespace has. Asked once for each sandbox that is made under a limit. */
  readonly count: (namespace: string) => number;
  /** Milliseconds of a clock that never goes back. */
  readonly monotonicMs: () => number;
}

interface Rate {
  readonly window: SlidingWindow;
  /** Sandboxes that are being made. */
  pending: number;
}

type Headers = Readonly<Record<string, string>>;

/**
 * Holds keys to their limits. What is being made counts from the moment it is let in, so that requests at once cannot
 * overshoot together. Keeps a counter for each limited namespace and the times of a minute's creates for each key.
 */
export class CreateLimits {
  readonly #count: (namespace: string) => number;
  readonly #now: () => number;
  /** Sandboxes that are being made in the namespaces that some key limits, with whichever key. */
  readonly #pending = new Map<string, number>();
  readonly #rates = new Map<Access, Rate>();

  constructor({ accesses, count, monotonicMs }: CreateLimitParts) {
    this.#count = count;
    this.#now = monotonicMs;
    for (const access of accesses) {
      const { namespace, limits } = access;
      if (limits?.maxSandboxes !== undefined) {
        this.#pending.set(namespace, 0);
      }
      if (limits?.createPerMinute !== undefined) {
        this.#rates.set(access, { window: new SlidingWindow(limits.createPerMinute, WINDOW_MS), pending: 0 });
      }
    }
  }

  /**
   * Runs what makes `wanted` sandboxes. What certainly made none counts for no rate.
   * @throws E2bError `limited`, and `bad_request` when so many can never be made at once
   */
  async run<T>(access: Access, wanted: number, make: () => Promise<T>): Promise<T> {
    const rate = this.#rates.get(access);
    const { namespace } = access;
    const counted = this.#pending.has(namespace);
    if (rate === undefined && !counted) {
      return make();
    }
    this.#admit(access, rate, wanted);
    const pend = (by: number): void => {
      if (counted) {
        this.#pending.set(namespace, (this.#pending.get(namespace) ?? 0) + by);
      }
      if (rate !== undefined) {
        rate.pending += by;
      }
    };
    pend(wanted);
    let made = true;
    try {
      return await make();
    } catch (error) {
      made = isScaleError(error, "claim_failed") || isScaleError(error, "aborted");
      throw error;
    } finally {
      pend(-wanted);
      if (made) {
        rate?.window.add(this.#now(), wanted);
      }
    }
  }

  /** What an answer tells of the key's limits: the fields of the IETF draft on rate limits. */
  headers(access: Access): Headers | undefined {
    const { limits, namespace } = access;
    if (limits === undefined) {
      return undefined;
    }
    const policies: string[] = [];
    const states: string[] = [];
    const rate = this.#rates.get(access);
    if (rate !== undefined && limits.createPerMinute !== undefined) {
      const now = this.#now();
      const left = Math.max(0, limits.createPerMinute - rate.window.used(now) - rate.pending);
      const reset = seconds(rate.window.untilLeft(now, Math.min(1, rate.window.used(now))) ?? 0);
      policies.push(`"${LIMIT_NAMES.createPerMinute}";q=${limits.createPerMinute};w=${WINDOW_MS / 1000}`);
      states.push(`"${LIMIT_NAMES.createPerMinute}";r=${left};t=${reset}`);
    }
    if (limits.maxSandboxes !== undefined) {
      const left = Math.max(0, limits.maxSandboxes - this.#used(namespace));
      policies.push(`"${LIMIT_NAMES.maxSandboxes}";q=${limits.maxSandboxes}`);
      states.push(`"${LIMIT_NAMES.maxSandboxes}";r=${left}`);
    }
    return { "ratelimit-policy": policies.join(", "), ratelimit: states.join(", ") };
  }

  #used(namespace: string): number {
    return this.#count(namespace) + (this.#pending.get(namespace) ?? 0);
  }

  #admit(access: Access, rate: Rate | undefined, wanted: number): void {
    const { maxSandboxes, createPerMinute } = access.limits ?? {};
    if (maxSandboxes !== undefined) {
      const name = `${LIMIT_NAMES.maxSandboxes}=${maxSandboxes}`;
      mustFit(wanted, maxSandboxes, name);
      if (this.#used(access.namespace) + wanted > maxSandboxes) {
        const what = "the sandboxes of its namespace that exist or are being made, paused ones included";
        throw this.#limited(access, `${name} is reached: it counts ${what}`, RETRY_SECONDS);
      }
    }
    if (rate !== undefined && createPerMinute !== undefined) {
      const name = `${LIMIT_NAMES.createPerMinute}=${createPerMinute}`;
      mustFit(wanted, createPerMinute, name);
      const now = this.#now();
      const over = rate.window.used(now) + rate.pending + wanted - createPerMinute;
      if (over > 0) {
        // What is being made leaves the window last, and may come to nothing before.
        const waitMs = rate.window.untilLeft(now, over) ?? RETRY_SECONDS * 1000;
        throw this.#limited(access, `${name} is reached`, seconds(waitMs));
      }
    }
  }

  #limited(access: Access, what: string, retrySeconds: number): E2bError {
    return new E2bError("limited", `limit ${what}; ${SET_IN}`, {
      headers: { "retry-after": String(Math.max(1, retrySeconds)), ...this.headers(access) },
    });
  }
}

function mustFit(wanted: number, limit: number, name: string): void {
  if (wanted > limit) {
    throw new E2bError("bad_request", `${wanted} sandboxes at once are more than limit ${name} allows; ${SET_IN}`);
  }
}

function seconds(ms: number): number {
  return Math.ceil(ms / 1000);
}
