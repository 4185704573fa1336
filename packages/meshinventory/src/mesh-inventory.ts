import { setTimeout as sleep } from "node:timers/promises";
import type { InventorySource, NodeInventory, NodePools } from "@org/scale";
import { nextDue } from "./cadence.ts";
import { errorText, MeshStartError } from "./errors.ts";
import { MemberPoller, type PollerParts } from "./member-poller.ts";
import { applyAnswers, type Answer, type Member } from "./membership.ts";
import { resolveOptions, type MeshInventoryOptions, type MeshSettings } from "./options.ts";
import { checkSeeds } from "./seed-check.ts";
import { buildSnapshot, emptySnapshot, succeed, type MeshSnapshot } from "./snapshot.ts";
import { logNoAddress, logTick } from "./tick-log.ts";
import { Turns } from "./turns.ts";

/** One member, as {@link MeshInventory.members} shows it. */
export interface MeshMember {
  readonly address: string;
  readonly seed: boolean;
  /** Ticks in a row without an answer. */
  readonly fails: number;
  /** The node's key, once it has answered. */
  readonly node?: string | undefined;
}

interface TickResult {
  readonly answers: ReadonlyMap<string, Answer>;
  readonly joined: number;
}

/** When members keep a tick waiting, what the others said is published this often, in milliseconds. */
const EARLY_PUBLISH_MS = 250;

/**
 * Inventory of a mesh of nodes. Every read answers from one immutable snapshot. A tick asks every member at once, with
 * two requests in a row each; ticks never overlap. A member that does not answer keeps its last inventory for
 * `maxStaleTicks` ticks, and keeps nobody else's from being published.
 */
export class MeshInventory implements InventorySource {
  readonly #settings: MeshSettings;
  readonly #parts: PollerParts;
  readonly #pollers = new Map<string, MemberPoller>();
  #members: Map<string, Member>;
  readonly #listeners = new Set<() => void>();
  #snapshot: MeshSnapshot = emptySnapshot;
  #running: Promise<unknown> = Promise.resolve();
  /** Resolves when the poller has ended, after the signal. */
  readonly stopped: Promise<void>;
  readonly #resolveStopped: () => void;

  private constructor(settings: MeshSettings) {
    this.#settings = settings;
    this.#parts = { dial: settings.dial, turns: new Turns() };
    this.#members = new Map(settings.seeds.map((address) => [address, { address, seed: true, fails: 0 }]));
    const { promise, resolve } = Promise.withResolvers<void>();
    this.stopped = promise;
    this.#resolveStopped = resolve;
  }

  /**
   * Polls the seeds, polls the members they name, and goes on polling until the signal fires. Takes two intervals at
   * most.
   * @throws MeshStartError when a seed is no address, a seed refuses the token or has no key, or none answers; the
   * signal's reason when it fires before the first snapshot; TypeError for options out of range.
   */
  static async start(options: MeshInventoryOptions): Promise<MeshInventory> {
    if (options.seeds.length === 0) {
      throw new MeshStartError("no-seeds", "meshinventory: at least one seed is required");
    }
    const settings = resolveOptions(options);
    const { seeds, signal } = settings;
    const mesh = new MeshInventory(settings);
    mesh.#dialSeeds();
    let began = performance.now();
    const { answers, joined } = await mesh.#tick();
    signal.throwIfAborted();
    checkSeeds(seeds, answers);
    if (joined > 0) {
      began = performance.now();
      await mesh.#tick();
      signal.throwIfAborted();
    }
    void mesh.#loop(began);
    return mesh;
  }

  get generation(): number {
    return this.#snapshot.generation;
  }

  listNodes(): readonly string[] {
    return this.#snapshot.nodes;
  }

  nodeInventory(node: string): NodeInventory | undefined {
    return this.#snapshot.byKey.get(node);
  }

  nodeCapacity(node: string): NodePools | undefined {
    return this.#snapshot.capacityByKey.get(node);
  }

  nodeCapacities(): readonly NodePools[] {
    return this.#snapshot.capacities;
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** The members, seeds first, then in the order they were found. */
  members(): readonly MeshMember[] {
    return [...this.#members.values()].map(({ address, seed, fails, inventory }) => ({
      address,
      seed,
      fails,
      node: inventory?.node,
    }));
  }

  /** Runs one tick now, after one that is running. Does nothing once the signal has fired. */
  async tick(): Promise<void> {
    const before = this.#running;
    const mine = before.then(() => this.#tick());
    this.#running = mine.catch(() => undefined);
    await mine;
  }

  async #loop(lastBegan: number): Promise<void> {
    const { signal, intervalMs, logger } = this.#settings;
    let due = lastBegan + intervalMs;
    while (!signal.aborted) {
      // An abort ends the wait and the loop.
      await sleep(Math.max(0, due - performance.now()), undefined, { signal }).catch(() => undefined);
      try {
        await this.tick();
      } catch (error) {
        logger?.error({ func: "meshinventory.tick", err: error }, "mesh tick failed");
      }
      due = nextDue(due, performance.now(), intervalMs);
    }
    await this.#running;
    this.#resolveStopped();
  }

  async #tick(): Promise<TickResult> {
    const { signal, intervalMs } = this.#settings;
    const answers = new Map<string, Answer>();
    if (signal.aborted) {
      return { answers, joined: 0 };
    }
    const tick = new AbortController();
    const onStop = (): void => tick.abort(signal.reason);
    signal.addEventListener("abort", onStop, { once: true });
    const deadline = setTimeout(
      () => tick.abort(new Error(`no answer within the tick of ${intervalMs} ms`)),
      intervalMs,
    );
    let published = 0;
    const publishEarly = (): void => {
      if (answers.size > published) {
        published = answers.size;
        this.#publish(this.#withAnswers(answers));
      }
    };
    const early = setInterval(publishEarly, EARLY_PUBLISH_MS);
    // Those that answered last time are not kept waiting for those that did not.
    let expected = [...this.#members.values()].filter((member) => member.fails === 0).length;
    const poll = async ({ address, fails }: Member): Promise<void> => {
      answers.set(address, await this.#poller(address).poll(tick.signal));
      expected -= fails === 0 ? 1 : 0;
      if (expected === 0 && answers.size < this.#members.size && !signal.aborted) {
        publishEarly();
      }
    };
    try {
      await Promise.all([...this.#members.values()].map(poll));
    } finally {
      clearInterval(early);
      clearTimeout(deadline);
      signal.removeEventListener("abort", onStop);
    }
    // Every member of a cancelled tick "fails": such a tick says nothing.
    return signal.aborted ? { answers, joined: 0 } : this.#apply(answers);
  }

  #apply(answers: ReadonlyMap<string, Answer>): TickResult {
    const { maxStale, logger } = this.#settings;
    const before = this.#members;
    const { members, joined, left } = applyAnswers(before, answers, maxStale);
    const dialable = joined.filter((address) => this.#canJoin(address));
    for (const address of joined) {
      if (!dialable.includes(address)) {
        members.delete(address);
      }
    }
    for (const address of left) {
      this.#pollers.delete(address);
    }
    this.#members = members;
    this.#publish(members.values());
    if (logger !== undefined) {
      logTick(logger, { before, answers, joined: dialable, left });
    }
    return { answers, joined: dialable.length };
  }

  #publish(members: Iterable<Member>): void {
    const { generation } = this.#snapshot;
    this.#snapshot = succeed(this.#snapshot, buildSnapshot(members, this.#settings.maxStale, generation));
    if (this.#snapshot.generation !== generation) {
      for (const listener of this.#listeners) {
        listener();
      }
    }
  }

  /** The members with the answers so far: who has not answered keeps what it had, nobody joins or leaves. */
  *#withAnswers(answers: ReadonlyMap<string, Answer>): Iterable<Member> {
    for (const member of this.#members.values()) {
      const answer = answers.get(member.address);
      yield answer?.ok === true ? { ...member, fails: 0, inventory: answer.inventory } : member;
    }
  }

  /** A seed that can never be dialed is a mistake of the caller, also beside others that can. */
  #dialSeeds(): void {
    for (const seed of this.#settings.seeds) {
      try {
        this.#poller(seed);
      } catch (error) {
        throw new MeshStartError("bad-seed", `meshinventory: ${errorText(error)}`, { seed, cause: error });
      }
    }
  }

  #poller(address: string): MemberPoller {
    const known = this.#pollers.get(address);
    if (known !== undefined) {
      return known;
    }
    const poller = new MemberPoller(address, this.#parts);
    this.#pollers.set(address, poller);
    return poller;
  }

  /** Gossip may name what is no address: such a peer is never dialed. */
  #canJoin(address: string): boolean {
    try {
      this.#poller(address);
      return true;
    } catch (error) {
      logNoAddress(this.#settings.logger, address, error);
      return false;
    }
  }
}
