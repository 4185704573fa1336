import type { FullPoolKey, OnExpire, SandboxRow, StatsReply, StringMap } from "@org/sandboxd-client/wire";
import type { Duplex } from "node:stream";
import { isDevNodeError } from "../errors.ts";
import type { Guest } from "../host/guest.ts";
import { Refusal } from "./refusal.ts";
import { tierOf } from "./pool-key.ts";

/** Where a sandbox is in its life. A failed one has lost its guest. */
export type SandboxState = "running" | "hibernated" | "archived" | "failed" | "released";

/** What a claim fixes for good. */
export interface SandboxFacts {
  readonly guest: Guest;
  readonly key: FullPoolKey;
  readonly token: string;
  readonly tokenDigest: Buffer;
  readonly tenant: string | undefined;
  readonly claimRef: string;
  readonly metadata: StringMap;
  /** Checkpoint that it was branched from. */
  readonly fromCheckpoint?: string | undefined;
}

/** Idle and archive windows of the pool that a sandbox came from, in seconds; 0 switches one off. */
export interface IdlePolicy {
  readonly idleHibernateSeconds: number;
  readonly archiveAfterSeconds: number;
  readonly archiveDeleteAfterSeconds: number;
}

const ZERO_TIME = "0001-01-01T00:00:00Z";

/**
 * One claimed sandbox. Transitions of one sandbox happen one after another; whoever waits sees the state that the one
 * before it left.
 */
export class Sandbox {
  readonly id: string;
  readonly facts: SandboxFacts;
  readonly claimedAt: number;
  state: SandboxState = "running";
  /** Why a failed sandbox has no guest. */
  failure: string | undefined;
  onExpire: OnExpire;
  /** Length of the granted lease, which a wake from the archive grants again. */
  leaseSeconds: number;
  /** Milliseconds since 1970; while archived the end of retention, `undefined` for none. */
  deadline: number | undefined;
  /** Milliseconds since 1970. */
  lastActivity: number;
  hibernatedAt = 0;
  readonly #now: () => number;
  readonly #relays = new Set<Duplex>();
  readonly #dials = new Set<Promise<unknown>>();
  #active = 0;
  #queue: Promise<unknown> = Promise.resolve();
  #pending = 0;
  readonly #captures = new Set<AbortController>();
  #leaving = false;

  constructor(facts: SandboxFacts, leaseSeconds: number, onExpire: OnExpire, now: () => number) {
    this.id = facts.guest.id;
    this.facts = facts;
    this.onExpire = onExpire;
    this.leaseSeconds = leaseSeconds;
    this.#now = now;
    this.claimedAt = now();
    this.lastActivity = this.claimedAt;
    this.deadline = this.claimedAt + leaseSeconds * 1000;
    void facts.guest.ended.then((reason) => this.#fail(reason));
  }

  get paused(): boolean {
    return this.state === "hibernated" || this.state === "archived";
  }

  /** A transition is running or waits. */
  get inTransition(): boolean {
    return this.#pending > 0;
  }

  /** Connections that hold off the idle policy. */
  get activeRelays(): number {
    return this.#active;
  }

  /** Runs `step` after the transitions before it. */
  transition<T>(step: () => Promise<T>): Promise<T> {
    this.#pending += 1;
    const run = this.#queue.then(step, step).finally(() => {
      this.#pending -= 1;
    });
    this.#queue = run.catch(() => undefined);
    return run;
  }

  touch(): void {
    this.lastActivity = this.#now();
  }

  /** Freezes the guest; resolves `false` when it was paused already. @throws Refusal 409, 404 */
  hibernate(): Promise<boolean> {
    return this.transition(async () => {
      this.#mustLive();
      if (this.facts.key.net === "egress") {
        throw new Refusal(409, "egress-lane sandboxes do not hibernate");
      }
      if (this.state !== "running") {
        return false;
      }
      // A connection that is being made would hang on a frozen guest; those made are cut, as a stopped machine would.
      await Promise.allSettled(this.#dials);
      this.cutRelays();
      await this.#freeze();
      this.state = "hibernated";
      this.hibernatedAt = this.#now();
      return true;
    });
  }

  /** Makes it run. Resolves with what it was before. @throws Refusal 409, 404 */
  async wake(): Promise<SandboxState> {
    if (this.state === "running" && !this.inTransition) {
      return "running";
    }
    return await this.transition(() => this.#thawed());
  }

  /** Makes it run, inside a transition. Resolves with what it was before. */
  async #thawed(): Promise<SandboxState> {
    this.#mustLive();
    const before = this.state;
    if (before === "running") {
      return before;
    }
    await this.#unlessItEnds(this.facts.guest.thaw());
    if (before === "archived") {
      this.deadline = this.#now() + this.leaseSeconds * 1000;
    }
    this.state = "running";
    this.touch();
    return before;
  }

  /** After a failure it runs, all of it: half frozen it would stay for ever, since it counts as running. */
  async #freeze(): Promise<void> {
    const { guest } = this.facts;
    try {
      await this.#unlessItEnds(guest.freeze());
    } catch (error) {
      await guest.thaw().catch(() => undefined);
      throw error;
    }
  }

  /** A step on the guest. That its guest ended is what a failure means then. @throws Refusal 409, 404 */
  async #unlessItEnds(step: Promise<void>): Promise<void> {
    try {
      await step;
    } catch (error) {
      this.#mustLive();
      throw error;
    }
    this.#mustLive();
  }

  /** Begins a connection that a pause waits for. */
  #connect(port: number, signal: AbortSignal): Promise<Duplex> {
    const dialing = this.facts.guest.connect(port, { signal });
    this.#dials.add(dialing);
    const forget = (): boolean => this.#dials.delete(dialing);
    dialing.then(forget, forget);
    return dialing;
  }

  /** Archives it: frozen, no lease. Inside a transition. */
  async archive(retentionSeconds: number): Promise<void> {
    if (this.state === "running") {
      await Promise.allSettled(this.#dials);
      this.cutRelays();
      await this.#freeze();
    }
    this.state = "archived";
    this.deadline = retentionSeconds > 0 ? this.#now() + retentionSeconds * 1000 : undefined;
  }

  /** Grants a new lease and resolves with its end. Never wakes. @throws Refusal 409, 404 */
  renew(seconds: number, onExpire: OnExpire | undefined): number {
    this.#mustExist();
    if (this.state === "archived") {
      throw new Refusal(409, "archived sandboxes have no lease to renew: wake it first");
    }
    if (onExpire === "archive" && this.facts.key.net === "egress") {
      throw new Refusal(409, "egress-lane sandboxes cannot be archived");
    }
    this.leaseSeconds = seconds;
    this.onExpire = onExpire ?? this.onExpire;
    const deadline = this.#now() + seconds * 1000;
    this.deadline = deadline;
    this.touch();
    return deadline;
  }

  /**
   * A connection to a guest port. An active one wakes a paused sandbox and counts as activity, a passive one does
   * neither. @throws Refusal 404, 409, 502
   */
  async dial(port: number, active: boolean, signal: AbortSignal): Promise<Duplex> {
    this.#mustLive();
    let dialing: Promise<Duplex>;
    if (!active) {
      if (this.paused || this.inTransition) {
        throw new Refusal(409, "sandbox is paused");
      }
      dialing = this.#connect(port, signal);
    } else if (this.state === "running" && !this.inTransition) {
      this.touch();
      dialing = this.#connect(port, signal);
    } else {
      // Waking and the first step of connecting are one transition: no pause comes in between, and any number of
      // callers queue up once each. The connection itself is awaited outside, since a pause waits for it.
      ({ dialing } = await this.transition(async () => {
        await this.#thawed();
        this.touch();
        return { dialing: this.#connect(port, signal) };
      }));
    }
    let relay: Duplex;
    try {
      relay = await dialing;
    } catch (cause) {
      if (isDevNodeError(cause)) {
        throw new Refusal(502, "guest port unreachable", { cause });
      }
      throw cause;
    }
    this.#relays.add(relay);
    this.#active += active ? 1 : 0;
    relay.once("close", () => {
      this.#relays.delete(relay);
      if (active) {
        this.#active -= 1;
        this.touch();
      }
    });
    if (this.state !== "running") {
      relay.destroy();
    }
    return relay;
  }

  cutRelays(): void {
    for (const relay of this.#relays) {
      relay.destroy();
    }
  }

  /**
   * Copies the guest's files to `to` while nothing in it runs. A paused guest stays paused; a release ends the copy.
   * @throws Refusal 409, 404; the signal's reason
   */
  capture(to: string, { signal }: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    return this.transition(async () => {
      this.mustBeCapturable();
      signal?.throwIfAborted();
      const stop = new AbortController();
      const onAbort = (): void => stop.abort(signal?.reason);
      signal?.addEventListener("abort", onAbort);
      this.#captures.add(stop);
      try {
        await this.#standingStill(() => this.facts.guest.copyFiles(to, { signal: stop.signal }));
      } catch (error) {
        this.#mustExist();
        throw error;
      } finally {
        this.#captures.delete(stop);
        signal?.removeEventListener("abort", onAbort);
      }
      // The files of a guest that ended meanwhile may have been on their way out.
      this.#mustLive();
    });
  }

  /** @throws Refusal 409, 404 */
  mustBeCapturable(): void {
    this.#mustLive();
    if (this.facts.key.net === "egress") {
      throw new Refusal(409, "egress-lane sandboxes cannot fork, checkpoint, or promote");
    }
    if (this.state === "archived") {
      throw new Refusal(409, "archived sandboxes cannot fork, checkpoint, or promote: wake it first");
    }
  }

  async #standingStill(step: () => Promise<void>): Promise<void> {
    if (this.state !== "running") {
      await step();
      return;
    }
    const { guest } = this.facts;
    try {
      await this.#freeze();
      await step();
    } finally {
      try {
        await guest.thaw();
      } catch {
        // What cannot be thawed is paused: a wake tries again.
        this.state = this.state === "running" ? "hibernated" : this.state;
      }
    }
  }

  /** Puts a document where the guest's processes read it. @throws Refusal 409, 404 */
  async describe(document: Uint8Array): Promise<void> {
    this.#mustLive();
    if (this.paused || this.inTransition) {
      throw new Refusal(409, "sandbox is paused or about to change: instance metadata needs a running one");
    }
    await this.transition(async () => {
      this.#mustLive();
      if (!(await this.facts.guest.putDocument(document))) {
        throw new Refusal(409, "the guest has no folder for instance metadata");
      }
    });
  }

  /** Ends it for good, and with it a copy that is being made. */
  async release(): Promise<void> {
    // What waits for its turn does not begin any more.
    this.#leaving = true;
    for (const capture of this.#captures) {
      capture.abort(new Refusal(404, "unknown sandbox"));
    }
    await this.transition(async () => {
      this.state = "released";
      this.cutRelays();
      await this.facts.guest.destroy();
    });
  }

  row(): SandboxRow {
    const { key, tenant, claimRef, metadata, fromCheckpoint } = this.facts;
    const tier = tierOf(key);
    return {
      id: this.id,
      key,
      ...(tenant === undefined ? {} : { tenant }),
      deadline: this.deadline === undefined ? ZERO_TIME : new Date(this.deadline).toISOString(),
      claimed_at: new Date(this.claimedAt).toISOString(),
      hibernated: this.state === "hibernated",
      ...(this.state === "archived" ? { archived: true } : {}),
      ...(fromCheckpoint === undefined ? {} : { from_checkpoint: fromCheckpoint }),
      ...(claimRef === "" ? {} : { claim_ref: claimRef }),
      ...(this.onExpire === "archive" ? { on_expire: "archive" } : {}),
      ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
      cpu_count: tier.cpuCount,
      mem_total_bytes: tier.memoryBytes,
      ...(this.failure === undefined ? {} : { failed: this.failure }),
    };
  }

  /** Memory is what the guest's processes hold on the host, as a machine monitor's would be. */
  stats(): StatsReply {
    const tier = tierOf(this.facts.key);
    const used = this.state === "failed" ? undefined : this.facts.guest.memory();
    return {
      id: this.id,
      cpu_count: tier.cpuCount,
      mem_total_bytes: tier.memoryBytes,
      mem_used_bytes: used ?? 0,
      mem_used_measured: used !== undefined,
      hibernated: this.state === "hibernated",
      measured_at: new Date(this.#now()).toISOString(),
    };
  }

  #fail(reason: string): void {
    if (this.state !== "released") {
      this.state = "failed";
      this.failure = `guest ended: ${reason}`;
      this.cutRelays();
    }
  }

  #mustExist(): void {
    if (this.#leaving) {
      throw new Refusal(404, "unknown sandbox");
    }
  }

  #mustLive(): void {
    this.#mustExist();
    if (this.state === "failed") {
      throw new Refusal(409, "sandbox failed: its guest ended");
    }
  }
}
