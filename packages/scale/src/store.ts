import type { Duplex } from "node:stream";
import { AgePages } from "./age-pages.ts";
import { Captures } from "./captures.ts";
import { ChangeSignal } from "./change-signal.ts";
import { Deliveries } from "./deliveries.ts";
import { DetachedWork, throwIfAborted } from "./detached-work.ts";
import type {
  Assignment,
  ClaimOptions,
  PoolKey,
  PromotedTemplate,
  Promotion,
  Sandbox,
  SandboxRecord,
  Snapshot,
} from "./domain.ts";
import { ScaleError } from "./errors.ts";
import { LateClaims } from "./late-claims.ts";
import { NamespaceCounts } from "./namespace-counts.ts";
import { NodeCalls } from "./node-calls.ts";
import { NodeIndex } from "./node-index.ts";
import { Overlay } from "./overlay.ts";
import type {
  CallOptions,
  InventorySource,
  ListOptions,
  Logger,
  NodeClients,
  PageOptions,
  SandboxEvent,
  SandboxPage,
  SandboxStore,
  SelectOptions,
  WatchOptions,
} from "./ports.ts";
import { Releases } from "./releases.ts";
import { RoutingTables } from "./routing-table.ts";
import { SandboxClaims } from "./sandbox-claims.ts";
import { SandboxFinder } from "./sandbox-finder.ts";
import { SandboxList } from "./sandbox-list.ts";
import { isPaused, sandboxOf } from "./sandbox-view.ts";
import { SandboxWatches } from "./sandbox-watches.ts";
import { SandboxSelect } from "./select.ts";
import { parseSelection } from "./selection.ts";
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
  /**
   * How often watches compare the inventory, in milliseconds. A sandbox that comes and goes in less may never be seen.
   * @default 1000
   */
  readonly watchPollMs?: number | undefined;
}

const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} };

type Lease = Parameters<SandboxStore["renew"]>[2];
type ForkOptions = Parameters<SandboxStore["fork"]>[3];

/**
 * A store over an inventory source. It keeps no record per sandbox: what it remembers are bounded hints (which node
 * holds what) and its own recent writes.
 *
 * @throws TypeError for a time or concurrency that makes no sense.
 */
export function createStore(source: InventorySource, options: StoreOptions = {}): SandboxStore {
  return new ScatterGatherStore(source, options);
}

class ScatterGatherStore implements SandboxStore {
  readonly #source: InventorySource;
  readonly #overlay: Overlay;
  readonly #views = new ViewIndexes();
  readonly #detached = new DetachedWork();
  readonly #calls: NodeCalls;
  readonly #releases: Releases;
  readonly #late: LateClaims;
  readonly #claims: SandboxClaims;
  readonly #captures: Captures;
  readonly #finder: SandboxFinder;
  readonly #list: SandboxList;
  readonly #pages: AgePages;
  readonly #counts: NamespaceCounts;
  readonly #select: SandboxSelect;
  readonly #watches: SandboxWatches;
  readonly #signal: ChangeSignal;

  constructor(source: InventorySource, options: StoreOptions) {
    const { clients, logger = SILENT, random = Math.random } = options;
    const { liveTimeoutMs = 500, concurrency = 16, watchPollMs = 1000 } = options;
    checkDuration("liveTimeoutMs", liveTimeoutMs);
    checkDuration("watchPollMs", watchPollMs);
    if (!Number.isSafeInteger(concurrency) || concurrency < 1) {
      throw new TypeError("concurrency must be a positive integer");
    }
    const index = new NodeIndex();
    const views = this.#views;
    const detached = this.#detached;
    const overlay = new Overlay(source);
    const calls = new NodeCalls({ source, clients, detached });
    const releases = new Releases({ calls, overlay, logger });
    const late = new LateClaims({ source, views, overlay, logger, release: (node, id) => releases.release(node, id) });
    const deliveries = new Deliveries({ detached, releases, index, overlay, logger });
    const tables = new RoutingTables(source);
    this.#source = source;
    this.#overlay = overlay;
    this.#calls = calls;
    this.#releases = releases;
    this.#late = late;
    this.#claims = new SandboxClaims({ source, calls, tables, deliveries, late, logger, random });
    this.#captures = new Captures({ calls, deliveries });
    this.#finder = new SandboxFinder({ source, views, overlay, logger, clients, index, liveTimeoutMs, concurrency });
    this.#list = new SandboxList({ source, views, overlay, logger });
    this.#pages = new AgePages({ source, views, overlay, logger });
    this.#counts = new NamespaceCounts({ source, views, overlay });
    const reads = { source, views, overlay, logger, list: this.#list, finder: this.#finder };
    this.#select = new SandboxSelect(reads);
    this.#watches = new SandboxWatches({ ...reads, select: this.#select, pollMs: watchPollMs });
    this.#signal = new ChangeSignal({ source, overlay, logger, pollMs: watchPollMs });
  }

  claim(namespace: string, name: string, pool: PoolKey, options: ClaimOptions = {}): Promise<Assignment> {
    return this.#claims.claim(namespace, name, pool, options);
  }

  list(options: ListOptions = {}): readonly Sandbox[] {
    throwIfAborted(options.signal);
    return this.#list.list(options.namespace ?? "");
  }

  page(options: PageOptions = {}): Promise<SandboxPage> {
    return this.#pages.page(options);
  }

  count(namespace: string): number {
    return this.#counts.count(namespace);
  }

  async select(options: SelectOptions = {}): Promise<readonly Sandbox[]> {
    return this.#select.select(parseSelection(options), options.signal);
  }

  watch(options: WatchOptions = {}): AsyncIterable<SandboxEvent> {
    return this.#watches.open(parseSelection(options), options.bookmark === true, options.signal);
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
    const row = await this.#calls.call({ verb: "read", node, id }, options.signal, (client) =>
      client.sandbox(id, options),
    );
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
      answeredAt: row.answeredAt,
      sandbox,
    };
  }

  release(node: string, id: string, options: CallOptions = {}): Promise<void> {
    return this.#detached.run(() => this.#releases.release(node, id), options.signal);
  }

  pause(node: string, id: string, options: CallOptions = {}): Promise<void> {
    return this.#calls.write({ verb: "hibernate", node, id }, options, async (client) => {
      await client.hibernate(id);
      this.#overlay.phase(node, id, "Hibernated");
    });
  }

  resume(node: string, id: string, options: CallOptions = {}): Promise<void> {
    return this.#calls.write({ verb: "wake", node, id }, options, async (client) => {
      await client.wake(id);
      this.#overlay.phase(node, id, "Running");
    });
  }

  renew(node: string, id: string, lease: Lease, options: CallOptions = {}): Promise<Date | undefined> {
    return this.#calls.write({ verb: "renew", node, id }, options, async (client) => {
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
    const relay = await this.#calls.call({ verb: "port", node, id }, signal, (client) =>
      client.dialPort(id, port, token, options),
    );
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

  fork(
    namespace: string,
    node: string,
    id: string,
    fork: ForkOptions,
    options?: CallOptions,
  ): Promise<readonly Assignment[]> {
    return this.#captures.fork(namespace, node, id, fork, options);
  }

  snapshot(namespace: string, node: string, id: string, name: string, options?: CallOptions): Promise<Snapshot> {
    return this.#captures.snapshot(namespace, node, id, name, options);
  }

  snapshots(namespace: string, node: string, options?: CallOptions): Promise<readonly Snapshot[]> {
    return this.#captures.snapshots(namespace, node, options);
  }

  deleteSnapshot(node: string, snapshotId: string, options?: CallOptions): Promise<void> {
    return this.#captures.deleteSnapshot(node, snapshotId, options);
  }

  claimSnapshot(
    namespace: string,
    name: string,
    node: string,
    snapshotId: string,
    options: ClaimOptions = {},
  ): Promise<Assignment> {
    return this.#claims.claimSnapshot(namespace, name, node, snapshotId, options);
  }

  promote(node: string, id: string, template: string, options?: CallOptions): Promise<Promotion> {
    return this.#captures.promote(node, id, template, options);
  }

  deleteTemplate(node: string, key: PoolKey, digest?: string, options?: CallOptions): Promise<void> {
    return this.#captures.deleteTemplate(node, key, digest, options);
  }

  setTemplateLabels(
    node: string,
    key: PoolKey,
    labels: Readonly<Record<string, string>>,
    digest?: string,
    options?: CallOptions,
  ): Promise<void> {
    return this.#captures.setTemplateLabels(node, key, labels, digest, options);
  }

  nodeTemplates(node: string, options?: CallOptions): Promise<readonly PromotedTemplate[]> {
    return this.#captures.nodeTemplates(node, options);
  }

  setInstanceMetadata(node: string, id: string, document: Uint8Array, options?: CallOptions): Promise<void> {
    return this.#captures.setInstanceMetadata(node, id, document, options);
  }

  standing(node: string, id: string): "running" | "paused" | "unlisted" | "unknown" {
    const view = this.#source.nodeInventory(node);
    if (view === undefined) {
      return "unknown";
    }
    const entry = this.#overlay.resolve(node, id, this.#views.of(view).byId(id), view.asOfMs);
    if (entry === undefined) {
      return "unlisted";
    }
    return isPaused(entry.phase) ? "paused" : "running";
  }

  onReleased(listener: (node: string, id: string) => void): () => void {
    return this.#releases.onReleased(listener);
  }

  onChange(listener: () => void): () => void {
    return this.#signal.subscribe(listener);
  }

  async settled(): Promise<void> {
    await this.#detached.settled();
    await this.#late.settled();
  }

  /** A relay with the sandbox's own token wakes it. */
  #noteAwake(node: string, id: string): void {
    if (this.standing(node, id) === "paused") {
      this.#overlay.phase(node, id, "Running");
    }
  }
}

function checkDuration(name: string, milliseconds: number): void {
  if (!(milliseconds > 0 && milliseconds <= 0x7fffffff)) {
    throw new TypeError(`${name} must be a positive number of milliseconds`);
  }
}
