import { setTimeout as sleep } from "node:timers/promises";
import type { InventorySource, Logger, NodeInventory, NodePools } from "@org/scale";
import { createNodePoller, ReplyBuffer, type NodePoller, type NodePool } from "@org/sandboxd-client";
import { MeshStartError, NoAdvertiseAddressError } from "./errors.ts";
import { applyAnswers, type Answer, type Member } from "./membership.ts";
import { NodeDecoder } from "./node-decoder.ts";
import { buildSnapshot, emptySnapshot, succeed, type MeshSnapshot } from "./snapshot.ts";
import { Turns } from "./turns.ts";

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

/** One member, as {@link MeshInventory.members} shows it. */
export interface MeshMember {
  readonly address: string;
  readonly seed: boolean;
  /** Ticks in a row without an answer. */
  readonly fails: number;
  /** The node's key, once it has answered. */
  readonly node?: string | undefined;
}

/** Memory of one route's replies: the decoder keeps the last body in one, the next goes into the other. */
class Replies {
  #kept = new ReplyBuffer();
  next: ReplyBuffer = new ReplyBuffer();

  /** The decoder has taken what is in `next`. */
  keep(): void {
    [this.#kept, this.next] = [this.next, this.#kept];
  }
}

interface Connection {
  readonly reader: NodeReader;
  readonly decoder: NodeDecoder;
  readonly infos: Replies;
  readonly indexes: Replies;
}

interface TickResult {
  readonly answers: ReadonlyMap<string, Answer>;
  readonly joined: number;
}

const DEFAULT_INTERVAL_MS = 10_000;
const DEFAULT_MAX_STALE = 3;
/** When members keep a tick waiting, what the others said is published this often, in milliseconds. */
const EARLY_PUBLISH_MS = 250;

/**
 * Inventory of a mesh of nodes. Every read answers from one immutable snapshot. A tick asks every member at once, with
 * two requests in a row each; ticks never overlap. A member that does not answer keeps its last inventory for
 * `maxStaleTicks` ticks, and keeps nobody else's from being published.
 */
export class MeshInventory implements InventorySource {
  readonly #dial: (address: string) => NodeReader;
  readonly #intervalMs: number;
  readonly #maxStale: number;
  readonly #signal: AbortSignal;
  readonly #logger: Logger | undefined;
  readonly #seeds: readonly string[];
  readonly #turns = new Turns();
  readonly #connections = new Map<string, Connection>();
  #members: Map<string, Member>;
  #snapshot: MeshSnapshot = emptySnapshot;
  #running: Promise<unknown> = Promise.resolve();
  /** Resolves when the poller has ended, after the signal. */
  readonly stopped: Promise<void>;
  readonly #resolveStopped: () => void;

  private constructor(options: MeshInventoryOptions) {
    const { pollIntervalMs = 0, maxStaleTicks = DEFAULT_MAX_STALE } = options;
    if (!Number.isFinite(pollIntervalMs) || pollIntervalMs < 0 || pollIntervalMs > 2 ** 31 - 1) {
      throw new TypeError("pollIntervalMs must be a positive number of milliseconds");
    }
    if (!Number.isInteger(maxStaleTicks) || maxStaleTicks < 0) {
      throw new TypeError("maxStaleTicks must be a whole number from 0");
    }
    this.#dial = "dial" in options ? options.dial : dialThrough(options.pool, options.token);
    this.#intervalMs = pollIntervalMs === 0 ? DEFAULT_INTERVAL_MS : pollIntervalMs;
    this.#maxStale = maxStaleTicks;
    this.#signal = options.signal;
    this.#logger = options.logger;
    this.#seeds = [...new Set(options.seeds)];
    this.#members = new Map(this.#seeds.map((address) => [address, { address, seed: true, fails: 0 }]));
    const { promise, resolve } = Promise.withResolvers<void>();
    this.stopped = promise;
    this.#resolveStopped = resolve;
  }

  /**
   * Polls the seeds, polls the members they name, and goes on polling until the signal fires. Takes two intervals at
   * most.
   * @throws MeshStartError when a seed is no address, a seed refuses the token or has no key, or none answers; the signal's reason when it
   * fires before the first snapshot; TypeError for options out of range.
   */
  static async start(options: MeshInventoryOptions): Promise<MeshInventory> {
    if (options.seeds.length === 0) {
      throw new MeshStartError("no-seeds", "meshinventory: at least one seed is required");
    }
    const mesh = new MeshInventory(options);
    mesh.#dialSeeds();
    let began = performance.now();
    const { answers, joined } = await mesh.#tick();
    options.signal.throwIfAborted();
    mesh.#checkSeeds(answers);
    if (joined > 0) {
      began = performance.now();
      await mesh.#tick();
      options.signal.throwIfAborted();
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
    let due = lastBegan + this.#intervalMs;
    while (!this.#signal.aborted) {
      // An abort ends the wait and the loop.
      await sleep(Math.max(0, due - performance.now()), undefined, { signal: this.#signal }).catch(() => undefined);
      due = performance.now() + this.#intervalMs;
      try {
        await this.tick();
      } catch (error) {
        this.#logger?.error({ func: "meshinventory.tick", err: error }, "mesh tick failed");
      }
    }
    await this.#running;
    this.#resolveStopped();
  }

  async #tick(): Promise<TickResult> {
    const answers = new Map<string, Answer>();
    if (this.#signal.aborted) {
      return { answers, joined: 0 };
    }
    const tick = new AbortController();
    const onStop = (): void => tick.abort(this.#signal.reason);
    this.#signal.addEventListener("abort", onStop, { once: true });
    const deadline = setTimeout(
      () => tick.abort(new Error(`no answer within the tick of ${this.#intervalMs} ms`)),
      this.#intervalMs,
    );
    let published = 0;
    const early = setInterval(() => {
      if (answers.size > published) {
        published = answers.size;
        this.#publish(this.#withAnswers(answers));
      }
    }, EARLY_PUBLISH_MS);
    try {
      const polls = [...this.#members.keys()].map(async (address) => {
        answers.set(address, await this.#poll(address, tick.signal));
      });
      await Promise.all(polls);
    } finally {
      clearInterval(early);
      clearTimeout(deadline);
      this.#signal.removeEventListener("abort", onStop);
    }
    // Every member of a cancelled tick "fails": such a tick says nothing.
    return this.#signal.aborted ? { answers, joined: 0 } : this.#apply(answers);
  }

  async #poll(address: string, signal: AbortSignal): Promise<Answer> {
    try {
      const asOfMs = performance.now();
      const { reader, decoder, infos, indexes } = this.#connect(address);
      const infoBody = await unlessAborted(reader.info({ into: infos.next, signal }), signal);
      const info = await this.#turns.take(() => {
        signal.throwIfAborted();
        const read = decoder.info(infoBody);
        infos.keep();
        return read;
      });
      if (info.node !== address) {
        this.#checkAddress(info.node);
      }
      const indexBody = await unlessAborted(reader.sandboxes({ into: indexes.next, signal }), signal);
      const inventory = await this.#turns.take(() => {
        signal.throwIfAborted();
        const read = decoder.inventory(info, indexBody, asOfMs);
        indexes.keep();
        return read;
      });
      return { ok: true, inventory, peers: info.peers };
    } catch (error) {
      return { ok: false, error };
    }
  }

  #apply(answers: ReadonlyMap<string, Answer>): TickResult {
    const before = this.#members;
    const { members, joined, left } = applyAnswers(before, answers, this.#maxStale);
    const dialable = joined.filter((address) => this.#canJoin(address));
    for (const address of joined) {
      if (!dialable.includes(address)) {
        members.delete(address);
      }
    }
    for (const address of left) {
      this.#connections.delete(address);
    }
    this.#members = members;
    this.#publish(members.values());
    this.#logTick(before, answers, dialable, left);
    return { answers, joined: dialable.length };
  }

  #publish(members: Iterable<Member>): void {
    this.#snapshot = succeed(this.#snapshot, buildSnapshot(members, this.#maxStale, this.#snapshot.generation));
  }

  /** The members with the answers so far: who has not answered keeps what it had, nobody joins or leaves. */
  *#withAnswers(answers: ReadonlyMap<string, Answer>): Iterable<Member> {
    for (const member of this.#members.values()) {
      const answer = answers.get(member.address);
      yield answer?.ok === true ? { ...member, fails: 0, inventory: answer.inventory } : member;
    }
  }

  #logTick(
    before: ReadonlyMap<string, Member>,
    answers: ReadonlyMap<string, Answer>,
    joined: readonly string[],
    left: readonly string[],
  ): void {
    const logger = this.#logger;
    if (logger === undefined) {
      return;
    }
    const func = "meshinventory.tick";
    for (const { address, fails, inventory } of before.values()) {
      const answer = answers.get(address);
      if (answer === undefined || !answer.ok) {
        const err = errorText(answer?.error);
        logger.warn({ func, addr: address, fails: fails + 1, err }, "mesh member did not answer");
      } else if (inventory !== undefined && inventory.node !== answer.inventory.node) {
        const { node } = answer.inventory;
        logger.info({ func, addr: address, from: inventory.node, node }, "mesh member changed its address");
      }
    }
    for (const addr of joined) {
      logger.info({ func, addr }, "mesh member joined");
    }
    for (const addr of left) {
      logger.info({ func, addr }, "mesh member left");
    }
  }

  /** A seed that can never be dialed is a mistake of the caller, also beside others that can. */
  #dialSeeds(): void {
    for (const seed of this.#seeds) {
      try {
        this.#connect(seed);
      } catch (error) {
        throw new MeshStartError("bad-seed", `meshinventory: ${errorText(error)}`, { seed, cause: error });
      }
    }
  }

  #checkSeeds(answers: ReadonlyMap<string, Answer>): void {
    let firstError: { readonly seed: string; readonly error: unknown } | undefined;
    let answered = false;
    for (const seed of this.#seeds) {
      const answer = answers.get(seed);
      if (answer?.ok === true) {
        answered = true;
        continue;
      }
      const error = answer?.error;
      firstError ??= { seed, error };
      const status = error instanceof Error && "status" in error ? error.status : undefined;
      // A tenant's token is a 403 on the root routes.
      if (status === 401 || status === 403) {
        throw new MeshStartError(
          "unauthorized",
          `meshinventory: seed ${seed} refused the token; GET /v1/info needs the fleet root api_token: ${errorText(error)}`,
          { seed, cause: error },
        );
      }
      if (error instanceof NoAdvertiseAddressError) {
        throw new MeshStartError("no-advertise-addr", `meshinventory: seed ${seed}: ${error.message}`, { seed });
      }
    }
    if (!answered && firstError !== undefined) {
      const { seed, error } = firstError;
      throw new MeshStartError("no-seed-answered", `meshinventory: no seed answered: ${errorText(error)}`, {
        seed,
        cause: error,
      });
    }
  }

  #connect(address: string): Connection {
    const known = this.#connections.get(address);
    if (known !== undefined) {
      return known;
    }
    const connection = {
      reader: this.#dial(address),
      decoder: new NodeDecoder(),
      infos: new Replies(),
      indexes: new Replies(),
    };
    this.#connections.set(address, connection);
    return connection;
  }

  /** Gossip may name what is no address: such a peer is never dialed. */
  #canJoin(address: string): boolean {
    try {
      this.#connect(address);
      return true;
    } catch (error) {
      this.#logger?.debug(
        { func: "meshinventory.tick", addr: address, err: errorText(error) },
        "mesh peer cannot be dialed",
      );
      return false;
    }
  }

  /** Claims are sent to the key, so a node whose key is no address is of no use. */
  #checkAddress(key: string): void {
    try {
      this.#dial(key);
    } catch (error) {
      throw new Error(`advertises an address that cannot be dialed: ${errorText(error)}`, { cause: error });
    }
  }
}

function dialThrough(pool: NodePool, token: string | undefined): (address: string) => NodeReader {
  return (address) => createNodePoller({ address, token, pool });
}

/** Settles with the call, or rejects at the abort: a reader that ignores its signal must not hold the tick. */
function unlessAborted<T>(call: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason as Error);
    if (signal.aborted) {
      onAbort();
    }
    signal.addEventListener("abort", onAbort, { once: true });
    call.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
