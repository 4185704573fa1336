import type { Logger } from "@org/scale";
import { errorText, KubeError, pause, realTiming, type KubeClient, type Timing } from "@org/kubeinventory/client";
import { recordLeadership } from "./leader-event.ts";
import { LeaseCalls, microTime, type LeaseName, type LeaseReading, type LeaseSpec } from "./lease.ts";
import { within } from "./within.ts";

/** Options of {@link LeaderElection}. */
export interface LeaderElectionOptions {
  readonly client: Pick<KubeClient, "request">;
  /** The Lease that decides; it is made when there is none. */
  readonly lease: LeaseName;
  /** Tells this candidate from all others, and must be nobody else's. */
  readonly identity: string;
  /** How long the others wait after the last sign of a leader, in milliseconds; whole seconds. @default 15000 */
  readonly leaseDurationMs?: number | undefined;
  /** How long a leader that cannot renew goes on, in milliseconds; below the lease duration. @default 10000 */
  readonly renewDeadlineMs?: number | undefined;
  /** Time between two tries, in milliseconds; below the renew deadline. @default 2000 */
  readonly retryPeriodMs?: number | undefined;
  /** Told who leads, and what keeps this candidate from it. @default silent */
  readonly logger?: Logger | undefined;
  /** The wall clock in milliseconds: it is written down for people, and decides nothing. @default Date.now */
  readonly clock?: (() => number) | undefined;
  /** For tests. @default real time */
  readonly timing?: Timing | undefined;
}

/** What a leader works with. */
export interface Leadership {
  /** Fires when the lease is lost, or may be. */
  readonly signal: AbortSignal;
  /**
   * Whether the lease is still ours. Ask just before what only a leader may do: a process that was stopped for a while
   * wakes up before its timers do.
   */
  readonly holds: () => boolean;
}

const LEASE_DURATION_MS = 15_000;
const RENEW_DEADLINE_MS = 10_000;
const RETRY_PERIOD_MS = 2000;
/** Candidates that were started together must not ask in step: up to this much longer between two tries. */
const RETRY_JITTER = 0.2;

/** How a try ended. */
type Outcome =
  | { readonly kind: "held"; readonly sinceMs: number }
  | { readonly kind: "other"; readonly holder: string };

/**
 * One leader at a time, by a Lease. Time is measured by this process alone, from when it saw the Lease change: no clock is
 * compared with another. The Lease is not released at the end, so that whatever the leader began has time to end before
 * the next one begins. Kube specification §5.
 */
export class LeaderElection {
  readonly #options: LeaderElectionOptions;
  readonly #timing: Timing;
  readonly #clock: () => number;
  readonly #calls: LeaseCalls;
  readonly #leaseDurationMs: number;
  readonly #renewDeadlineMs: number;
  readonly #retryPeriodMs: number;
  /** The Lease's content as last seen, and when it was first seen so. */
  #seen: { readonly content: string; readonly sinceMs: number } | undefined;
  #holder: string | undefined;
  /** The failure that the log was last warned of, until a try succeeds. */
  #reported: string | undefined;

  /** @throws TypeError for options out of range. */
  constructor(options: LeaderElectionOptions) {
    const {
      identity,
      leaseDurationMs = LEASE_DURATION_MS,
      renewDeadlineMs = RENEW_DEADLINE_MS,
      retryPeriodMs = RETRY_PERIOD_MS,
    } = options;
    if (identity === "") {
      throw new TypeError("identity must not be empty");
    }
    if (!Number.isSafeInteger(leaseDurationMs / 1000) || leaseDurationMs <= 0) {
      throw new TypeError("leaseDurationMs must be a positive number of whole seconds");
    }
    if (!(retryPeriodMs > 0 && renewDeadlineMs > retryPeriodMs && leaseDurationMs > renewDeadlineMs)) {
      throw new TypeError("leaseDurationMs must be above renewDeadlineMs, and that above retryPeriodMs");
    }
    this.#options = options;
    this.#timing = options.timing ?? realTiming;
    this.#clock = options.clock ?? Date.now;
    this.#calls = new LeaseCalls(options.client, options.lease);
    this.#leaseDurationMs = leaseDurationMs;
    this.#renewDeadlineMs = renewDeadlineMs;
    this.#retryPeriodMs = retryPeriodMs;
  }

  /**
   * Waits for the lease, then calls `lead` and keeps the lease until that settles, the lease is lost or the signal
   * fires. Resolves when `lead` has settled, which its own signal tells to; call again for another term.
   * @throws what `lead` throws.
   */
  async term(lead: (leadership: Leadership) => Promise<void>, { signal }: { signal: AbortSignal }): Promise<void> {
    const sinceMs = await this.#acquire(signal);
    if (sinceMs === undefined) {
      return;
    }
    const life = new AbortController();
    const end = (): void => life.abort(signal.reason);
    signal.addEventListener("abort", end, { once: true });
    const tenure = new Tenure(this.#timing, this.#renewDeadlineMs, sinceMs, life);
    const { logger, lease, identity } = this.#options;
    logger?.info({ lease: lease.name, identity }, "became the leader");
    void this.#tell("became leader", life.signal);
    const renewing = this.#renew(tenure, life);
    try {
      await lead({ signal: life.signal, holds: () => tenure.holds() });
    } finally {
      const lost = life.signal.aborted && !signal.aborted;
      life.abort();
      tenure.end();
      signal.removeEventListener("abort", end);
      await renewing;
      if (lost) {
        logger?.warn({ lease: lease.name, identity, holder: this.#holder }, "lost the lease");
        void this.#tell("stopped leading", signal);
      }
    }
  }

  /** Tries until the lease is ours. Resolves with when the try began that won it; with nothing when the signal fires. */
  async #acquire(signal: AbortSignal): Promise<number | undefined> {
    while (!signal.aborted) {
      const outcome = await this.#try(this.#renewDeadlineMs, signal);
      if (outcome?.kind === "held") {
        return signal.aborted ? undefined : outcome.sinceMs;
      }
      await pause(this.#timing, this.#retryPeriodMs * (1 + RETRY_JITTER * this.#timing.random()), signal);
    }
    return undefined;
  }

  async #renew(tenure: Tenure, life: AbortController): Promise<void> {
    const { signal } = life;
    for (;;) {
      await pause(this.#timing, this.#retryPeriodMs, signal);
      if (signal.aborted) {
        return;
      }
      const outcome = await this.#try(this.#renewDeadlineMs, signal);
      if (outcome?.kind === "held") {
        tenure.renewed(outcome.sinceMs);
      } else if (outcome?.kind === "other") {
        life.abort(new KubeError("aborted", "another holds the lease"));
      }
    }
  }

  /** One try; `undefined` when nothing is known after it. Never rejects. */
  async #try(boundMs: number, signal: AbortSignal): Promise<Outcome | undefined> {
    const { lease, logger } = this.#options;
    try {
      const subject = `lease ${lease.namespace}/${lease.name}`;
      const outcome = await within(this.#timing, boundMs, signal, subject, (life) => this.#claim(life));
      this.#reported = undefined;
      return outcome;
    } catch (error) {
      const status = error instanceof KubeError ? error.status : undefined;
      const fields = { lease: lease.name, status, err: errorText(error) };
      if (signal.aborted || status === 409) {
        // Somebody else was faster: the next try tells who.
        logger?.debug(fields, "the lease was not taken");
      } else if (this.#reported !== fields.err) {
        this.#reported = fields.err;
        logger?.warn(fields, "the lease cannot be used");
      }
      return undefined;
    }
  }

  async #claim(signal: AbortSignal): Promise<Outcome> {
    const { identity } = this.#options;
    // Others count from when they see our change, which is later than this.
    const sinceMs = this.#timing.now();
    const reading = await this.#calls.read(signal);
    const now = microTime(this.#clock());
    const ours = { holderIdentity: identity, leaseDurationSeconds: this.#leaseDurationMs / 1000, renewTime: now };
    if (reading === undefined) {
      await this.#calls.create({ ...ours, acquireTime: now, leaseTransitions: 0 }, signal);
    } else if (reading.spec.holderIdentity === identity) {
      const { acquireTime = now, leaseTransitions } = reading.spec;
      await this.#calls.update(reading, { ...ours, acquireTime, leaseTransitions }, signal);
    } else if (this.#isFree(reading)) {
      const leaseTransitions = reading.spec.leaseTransitions + 1;
      await this.#calls.update(reading, { ...ours, acquireTime: now, leaseTransitions }, signal);
    } else {
      this.#sawHolder(reading.spec);
      return { kind: "other", holder: reading.spec.holderIdentity };
    }
    this.#holder = identity;
    this.#seen = undefined;
    return { kind: "held", sinceMs };
  }

  /** Whether nobody holds the lease: nothing of it has changed for its whole duration. */
  #isFree({ spec }: LeaseReading): boolean {
    const content = JSON.stringify(spec);
    if (this.#seen?.content !== content) {
      this.#seen = { content, sinceMs: this.#timing.now() };
    }
    const durationMs = spec.leaseDurationSeconds > 0 ? spec.leaseDurationSeconds * 1000 : this.#leaseDurationMs;
    return spec.holderIdentity === "" || this.#timing.now() - this.#seen.sinceMs >= durationMs;
  }

  #sawHolder({ holderIdentity: holder }: LeaseSpec): void {
    if (this.#holder !== holder) {
      this.#holder = holder;
      this.#options.logger?.info({ lease: this.#options.lease.name, holder }, "another is the leader");
    }
  }

  async #tell(what: string, signal: AbortSignal): Promise<void> {
    const { client, lease, identity, logger } = this.#options;
    try {
      await within(this.#timing, this.#renewDeadlineMs, signal, "event", (life) =>
        recordLeadership(client, lease, `${identity} ${what}`, new Date(this.#clock()), life),
      );
    } catch (error) {
      logger?.debug({ err: errorText(error) }, "an event was not recorded");
    }
  }
}

/** The time a leader has, from its last renewal on. Ends its work when that is over. */
class Tenure {
  readonly #timing: Timing;
  readonly #deadlineMs: number;
  readonly #life: AbortController;
  #sinceMs: number;
  #cancel: () => void;

  constructor(timing: Timing, deadlineMs: number, sinceMs: number, life: AbortController) {
    this.#timing = timing;
    this.#deadlineMs = deadlineMs;
    this.#life = life;
    this.#sinceMs = sinceMs;
    this.#cancel = this.#watch();
  }

  holds(): boolean {
    return !this.#life.signal.aborted && this.#leftMs() > 0;
  }

  /** The lease is ours for another while, unless it was over before: then somebody may have taken it in between. */
  renewed(sinceMs: number): void {
    if (this.holds()) {
      this.#sinceMs = sinceMs;
      this.#cancel();
      this.#cancel = this.#watch();
    }
  }

  end(): void {
    this.#cancel();
  }

  #leftMs(): number {
    return this.#sinceMs + this.#deadlineMs - this.#timing.now();
  }

  #watch(): () => void {
    return this.#timing.after(Math.max(0, this.#leftMs()), () => {
      this.#life.abort(new KubeError("timeout", `the lease was not renewed within ${this.#deadlineMs / 1000} s`));
    });
  }
}
