import type { Duplex } from "node:stream";
import { entryOfClaim } from "./claim-entry.ts";
import { routeClaim } from "./claim-router.ts";
import type { Delivery } from "./claim-router.ts";
import { DetachedWork, throwIfAborted } from "./detached-work.ts";
import type { Assignment, ClaimOptions, PoolKey, Sandbox, SandboxRecord } from "./domain.ts";
import { isScaleError, ScaleError } from "./errors.ts";
import { claimKey, nameKey, NodeIndex } from "./node-index.ts";
import { LateClaims } from "./late-claims.ts";
import { verbError } from "./node-failures.ts";
import { Overlay } from "./overlay.ts";
import type {
  CallOptions,
  InventorySource,
  ListOptions,
  Logger,
  NodeClaim,
  NodeClient,
  NodeClients,
  SandboxStore,
} from "./ports.ts";
import { RoutingTables } from "./routing-table.ts";
import { SandboxFinder } from "./sandbox-finder.ts";
import { SandboxList } from "./sandbox-list.ts";
import { isPaused, sandboxOf } from "./sandbox-view.ts";
import { ViewIndexes } from "./view-index.ts";

/** Options of {@link createStore}. */
export interface StoreOptions {
  /** How nodes are called. Without it claims and verbs fail with `routing_disabled` and reads see inventory only. */
  readonly clients?: NodeClients | undefined;
  /** @default silent */
  readonly logger?: Logger | undefined;
  /**
   * Uniform numbers in [0, 1) for sampling. Need not be secure.
   * @default Math.random
   */
  readonly random?: (() => number) | undefined;
  /**
   * How long one node may take to answer a look-up, in milliseconds.
   * @default 500
   */
  readonly liveTimeoutMs?: number | undefined;
  /**
   * How many nodes one look-up asks at a time.
   * @default 16
   */
  readonly concurrency?: number | undefined;
}

const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} };

type Lease = Parameters<SandboxStore["renew"]>[2];

/**
 * A store over an inventory source. It keeps no record per sandbox: what it remembers are bounded hints (which node
 * holds what) and its own recent writes.
 *
 * @throws TypeError for a time-out or concurrency that makes no sense.
 */
export function createStore(source: InventorySource, options: StoreOptions = {}): SandboxStore {
  return new ScatterGatherStore(source, options);
}

class ScatterGatherStore implements SandboxStore {
  readonly #source: InventorySource;
  readonly #clients: NodeClients | undefined;
  readonly #logger: Logger;
  readonly #random: () => number;
  readonly #tables: RoutingTables;
  readonly #index = new NodeIndex();
  readonly #overlay: Overlay;
  readonly #views = new ViewIndexes();
  readonly #finder: SandboxFinder;
  readonly #list: SandboxList;
  readonly #detached = new DetachedWork();
  readonly #late: LateClaims;
  readonly #releaseListeners = new Set<(node: string, id: string) => void>();

  constructor(source: InventorySource, options: StoreOptions) {
    const { liveTimeoutMs = 500, concurrency = 16 } = options;
    if (!(liveTimeoutMs > 0 && liveTimeoutMs <= 0x7fffffff)) {
      throw new TypeError("liveTimeoutMs must be a positive number of milliseconds");
    }
    if (!Number.isSafeInteger(concurrency) || concurrency < 1) {
      throw new TypeError("concurrency must be a positive integer");
    }
    this.#source = source;
    this.#clients = options.clients;
    this.#logger = options.logger ?? SILENT;
    this.#random = options.random ?? Math.random;
    this.#tables = new RoutingTables(source);
    this.#overlay = new Overlay(source);
    const shared = {
      source,
      logger: this.#logger,
      overlay: this.#overlay,
      views: this.#views,
    };
    this.#list = new SandboxList(shared);
    this.#late = new LateClaims({ ...shared, release: (node, id) => this.#release(node, id) });
    this.#finder = new SandboxFinder({
      ...shared,
      clients: this.#clients,
      index: this.#index,
      liveTimeoutMs,
      concurrency,
    });
  }

  async claim(namespace: string, name: string, pool: PoolKey, options: ClaimOptions = {}): Promise<Assignment> {
    const clients = this.#clients;
    if (clients === undefined) {
      throw routingDisabled("claim");
    }
    checkClaim(namespace, name, pool, options);
    const signal = options.signal;
    const claim: NodeClaim = {
      pool,
      claimRef: `${namespace}/${name}`,
      ttlSeconds: options.ttlSeconds,
      metadata: options.metadata && { ...options.metadata },
      onExpire: options.onExpire,
      noEgress: options.noEgress,
    };
    const delivery = await this.#detached.run(
      () =>
        routeClaim({
          clients,
          logger: this.#logger,
          random: this.#random,
          table: this.#tables.current(),
          claim,
          promoted: options.promoted === true,
          signal,
          viewOf: (node) => this.#source.nodeInventory(node),
          onUncertain: (node, before) => {
            if (options.uniqueName === true) {
              this.#late.watch(node, claim.claimRef, before);
            }
          },
        }),
      signal,
      {
        done: (late) => this.#releaseUnclaimed(late),
        failed: (error) => this.#claimLost(error),
      },
    );
    const { node, reply } = delivery;
    this.#index.remember(nameKey(namespace, name), node.node);
    this.#index.remember(claimKey(namespace, reply.id), node.node);
    this.#index.remember(claimKey("", reply.id), node.node);
    this.#overlay.claimed(node.node, entryOfClaim(claim, delivery));
    return {
      id: reply.id,
      node: node.node,
      address: reply.ownerAddress || node.address,
      token: reply.token,
      deadline: reply.deadline,
      netRoute: reply.netRoute,
      fromCheckpoint: reply.fromCheckpoint,
      claimRef: claim.claimRef,
    };
  }

  list(options: ListOptions = {}): readonly Sandbox[] {
    throwIfAborted(options.signal);
    return this.#list.list(options.namespace ?? "");
  }

  get(namespace: string, name: string, options: CallOptions = {}): Promise<Sandbox> {
    return this.#finder.byName(namespace, name, options.signal);
  }

  getByClaimId(
    namespace: string,
    id: string,
    match: (claimId: string) => boolean,
    options: CallOptions = {},
  ): Promise<Sandbox> {
    return this.#finder.byClaimId(namespace, id, match, options.signal);
  }

  async read(node: string, id: string, options: CallOptions = {}): Promise<SandboxRecord> {
    const startedAt = performance.now();
    const row = await this.#call("read", node, id, options.signal, (client) => client.sandbox(id, options));
    if (row !== undefined && row.entry.id !== id) {
      // Its token belongs to somebody else.
      throw new ScaleError("node_failed", `sandboxd read of "${id}" on node "${node}": it sent another sandbox`, {
        node,
        id,
        verb: "read",
      });
    }
    const entry = row && this.#overlay.resolve(node, id, row.entry, startedAt);
    if (row === undefined || entry === undefined) {
      throw new ScaleError("not_found", `sandboxd read of "${id}" on node "${node}": unknown sandbox`, {
        node,
        id,
        verb: "read",
        status: 404,
      });
    }
    const sandbox = sandboxOf(node, entry);
    return {
      token: row.token,
      paused: sandbox.paused,
      archived: row.archived && sandbox.paused,
      deadline: sandbox.deadline,
      sandbox,
    };
  }

  release(node: string, id: string, options: CallOptions = {}): Promise<void> {
    return this.#detached.run(() => this.#release(node, id), options.signal);
  }

  pause(node: string, id: string, options: CallOptions = {}): Promise<void> {
    return this.#write("hibernate", node, id, options, async (client) => {
      await client.hibernate(id);
      this.#overlay.phase(node, id, "Hibernated");
    });
  }

  resume(node: string, id: string, options: CallOptions = {}): Promise<void> {
    return this.#write("wake", node, id, options, async (client) => {
      await client.wake(id);
      this.#overlay.phase(node, id, "Running");
    });
  }

  renew(node: string, id: string, lease: Lease, options: CallOptions = {}): Promise<Date | undefined> {
    return this.#write("renew", node, id, options, async (client) => {
      const deadline = await client.renew(id, lease);
      this.#overlay.renewed(node, id, deadline);
      return deadline;
    });
  }

  async dialGuestPort(
    node: string,
    id: string,
    token: string,
    port: number,
    options: CallOptions = {},
  ): Promise<Duplex> {
    const signal = options.signal;
    if (!Number.isSafeInteger(port) || port < 1 || port > 65_535) {
      throw new ScaleError("bad_request", "a guest port is a number from 1 to 65535", { node, id, verb: "port" });
    }
    const relay = await this.#call("port", node, id, signal, (client) => client.dialPort(id, port, token, options));
    if (signal?.aborted === true) {
      relay.on("error", () => undefined);
      relay.destroy();
      throwIfAborted(signal);
    }
    if (token !== "") {
      this.#noteAwake(node, id);
    }
    return relay;
  }

  onReleased(listener: (node: string, id: string) => void): () => void {
    // A wrapper of its own, so that a listener that was added twice is removed once.
    const own = (node: string, id: string): void => listener(node, id);
    this.#releaseListeners.add(own);
    return () => void this.#releaseListeners.delete(own);
  }

  async settled(): Promise<void> {
    await this.#detached.settled();
    await this.#late.settled();
  }

  /** A relay with the sandbox's own token wakes it. */
  #noteAwake(node: string, id: string): void {
    const view = this.#source.nodeInventory(node);
    if (view === undefined) {
      return;
    }
    const entry = this.#overlay.resolve(node, id, this.#views.of(view).byId(id), view.asOfMs);
    if (entry !== undefined && isPaused(entry.phase)) {
      this.#overlay.phase(node, id, "Running");
    }
  }

  /** A verb that goes on when its caller leaves: the node would carry it out anyway, and the overlay must know. */
  #write<T>(
    verb: string,
    node: string,
    id: string,
    options: CallOptions,
    call: (client: NodeClient) => Promise<T>,
  ): Promise<T> {
    return this.#detached.run(() => this.#call(verb, node, id, undefined, call), options.signal);
  }

  async #release(node: string, id: string): Promise<void> {
    await this.#call("release", node, id, undefined, async (client, clients) => {
      try {
        await client.release(id);
      } catch (error) {
        // A 500 leaves open whether the claim is gone: asking again tells.
        if (clients.failure(error).status !== 500) {
          throw error;
        }
        await client.release(id);
      }
    }).catch((error: unknown) => {
      if (!isScaleError(error, "not_found") || error.status !== 404) {
        throw error;
      }
    });
    this.#overlay.released(node, id);
    for (const listener of this.#releaseListeners) {
      try {
        listener(node, id);
      } catch (error) {
        this.#logger.error({ func: "scale.Release", node, id, err: error }, "a listener of releases failed");
      }
    }
  }

  /** Calls the node that holds a sandbox. Every failure becomes a `ScaleError` that names verb, id and node. */
  async #call<T>(
    verb: string,
    node: string,
    id: string,
    signal: AbortSignal | undefined,
    call: (client: NodeClient, clients: NodeClients) => Promise<T>,
  ): Promise<T> {
    const where = { verb, id, node };
    const clients = this.#clients;
    if (clients === undefined) {
      throw routingDisabled(verb);
    }
    if (id === "" || node === "") {
      throw new ScaleError("bad_request", `sandboxd ${verb} needs ${id === "" ? "an id" : "a node"}`, where);
    }
    throwIfAborted(signal);
    const address = this.#source.nodeCapacity(node)?.address;
    if (address === undefined) {
      throw new ScaleError("not_found", `sandboxd ${verb} of "${id}": node "${node}" is unknown`, where);
    }
    if (address === "") {
      throw new ScaleError("node_failed", `sandboxd ${verb} of "${id}": node "${node}" has no address`, where);
    }
    try {
      return await call(clients.forAddress(address), clients);
    } catch (error) {
      throwIfAborted(signal);
      throw verbError(clients, error, where);
    }
  }

  async #releaseUnclaimed({ node, reply }: Delivery): Promise<void> {
    const fields = { func: "scale.Claim", node: node.node, id: reply.id };
    try {
      await this.#release(node.node, reply.id);
      this.#logger.debug(fields, "released a sandbox whose caller had left");
    } catch (error) {
      this.#logger.warn(
        { ...fields, err: error },
        "a sandbox whose caller had left was not released; it lives until its lease ends",
      );
    }
  }

  #claimLost(error: unknown): void {
    if (isScaleError(error, "claim_failed")) {
      this.#logger.warn(
        { func: "scale.Claim", node: error.node, err: error },
        "a claim whose caller had left may have been delivered; if so it lives until its lease ends",
      );
    }
  }
}

function checkClaim(namespace: string, name: string, pool: PoolKey, options: ClaimOptions): void {
  const bad = (message: string): never => {
    throw new ScaleError("bad_request", message, { verb: "claim" });
  };
  if (namespace === "" || namespace.includes("/")) {
    bad("a claim needs a namespace without a slash");
  }
  if (name === "") {
    bad("a claim needs a name");
  }
  if (pool.template === "") {
    bad("a claim needs a template");
  }
  const ttl = options.ttlSeconds ?? 0;
  if (!Number.isSafeInteger(ttl) || ttl < 0) {
    bad("a lease is a whole number of seconds, 0 for the node's default");
  }
}

function routingDisabled(verb: string): ScaleError {
  return new ScaleError("routing_disabled", `sandboxd ${verb}: no node clients are configured`, { verb });
}
