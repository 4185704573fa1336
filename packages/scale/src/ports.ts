import type { Duplex } from "node:stream";
import type {
  Assignment,
  ClaimOptions,
  InventoryEntry,
  NodeInventory,
  NodePools,
  PoolKey,
  PromotedTemplate,
  Promotion,
  Sandbox,
  SandboxRecord,
  Snapshot,
} from "./domain.ts";

/** Options of every call that may be cancelled. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

/**
 * Where the store learns of the fleet. Every method answers at once from one immutable snapshot; nothing that was
 * published is ever changed, a refresh swaps the whole snapshot.
 */
export interface InventorySource {
  /** Grows with every published change, so that readers can skip what they have already seen. */
  readonly generation: number;
  /** Node keys in code-unit order. */
  listNodes(): readonly string[];
  /** One node's view; `undefined` for an unknown, unreadable or stale node. */
  nodeInventory(node: string): NodeInventory | undefined;
  /** One node's pools without its entries. */
  nodeCapacity(node: string): NodePools | undefined;
  /** Every readable node's pools in `listNodes` order: the claim path's only read. The array is shared. */
  nodeCapacities(): readonly NodePools[];
  /**
   * Calls the listener after each published change. Returns the unsubscribe function. Without it readers look at
   * `generation` now and then; those that have it do so as well, since a view may end by the clock alone.
   */
  onChange?(listener: () => void): () => void;
}

/** What a claim sends to a node. */
export interface NodeClaim {
  readonly pool: PoolKey;
  readonly claimRef: string;
  readonly ttlSeconds?: number | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  readonly onExpire?: "destroy" | "archive" | undefined;
  readonly noEgress?: boolean | undefined;
  readonly requirePromoted?: boolean | undefined;
  readonly noRedirect?: boolean | undefined;
}

/** What a node answered to a claim that it did not refuse. */
export type NodeClaimReply =
  | {
      readonly kind: "delivered";
      readonly id: string;
      readonly token: string;
      readonly deadline?: Date | undefined;
      readonly ownerAddress?: string | undefined;
      readonly netRoute?: string | undefined;
      readonly fromCheckpoint?: string | undefined;
    }
  | { readonly kind: "redirect"; readonly targets: readonly string[]; readonly requirePromoted: boolean }
  | { readonly kind: "empty" };

/**
 * How a node call failed.
 * - `unsent`: the request never reached the node (refused, unreachable, name look-up, TLS, connect timeout).
 * - `status`: the node answered with an error status.
 * - `uncertain`: the request may have taken effect (timeout, reset, unreadable reply).
 * - `aborted`: the caller's signal ended the call before a request was sent.
 */
export type NodeFailureKind = "unsent" | "status" | "uncertain" | "aborted";

/** A failed node call, as the adapter reports it to the store. */
export interface NodeFailure {
  readonly kind: NodeFailureKind;
  readonly status?: number | undefined;
  /** The node's own words; fit to show for 4xx, for the log otherwise. */
  readonly nodeMessage?: string | undefined;
  /** The adapter's words for a failure without an answer. For the log: it may name addresses, never tokens. */
  readonly detail?: string | undefined;
}

/** One sandbox row of a node, with its token when the read carries it. */
export interface NodeSandbox {
  readonly entry: InventoryEntry;
  readonly archived: boolean;
  readonly token?: string | undefined;
  /** The node's own clock when it answered, where the read tells it. */
  readonly answeredAt?: Date | undefined;
}

/** One node's API as the store needs it. Every rejection is described by {@link NodeClients.failure}. */
export interface NodeClient extends NodeCaptures {
  /**
   * The signal ends a claim only while nothing of it was sent: then it rejects as `aborted` and no sandbox can come of
   * it. Once sent it is awaited within the client's own bound, whatever the signal does.
   */
  claim(claim: NodeClaim, options?: CallOptions): Promise<NodeClaimReply>;
  /** The row of one sandbox; `undefined` when the node does not know it. */
  sandbox(id: string, options?: CallOptions): Promise<NodeSandbox | undefined>;
  /** Rows with this claim reference. Older nodes ignore the filter and send everything. */
  sandboxesByRef(claimRef: string, options?: CallOptions): Promise<readonly NodeSandbox[]>;
  /** Resolves for a sandbox that is already gone. */
  release(id: string, options?: CallOptions): Promise<void>;
  hibernate(id: string, options?: CallOptions): Promise<void>;
  wake(id: string, options?: CallOptions): Promise<void>;
  renew(
    id: string,
    lease: { readonly ttlSeconds: number; readonly onExpire?: "destroy" | "archive" | undefined },
    options?: CallOptions,
  ): Promise<Date | undefined>;
  /** A raw connection to a guest port. With an empty token the relay is passive: it never wakes, a paused guest is 409. */
  dialPort(id: string, port: number, token: string, options?: CallOptions): Promise<Duplex>;
}

/** One child of a fork, or a claim that was delivered. */
export type NodeDelivery = Extract<NodeClaimReply, { readonly kind: "delivered" }>;

/** What a fork asks a node for. */
export interface NodeFork {
  readonly count: number;
  /** Lease of each child in seconds; 0 or absent asks for the node's default. */
  readonly ttlSeconds?: number | undefined;
  /** Each child's claim reference is this and the child's id. Older nodes ignore it. */
  readonly claimRefPrefix: string;
  readonly onExpire?: "destroy" | "archive" | undefined;
}

/** What a claim of a checkpoint sends to a node. Older nodes ignore `claimRef`. */
export interface NodeCheckpointClaim {
  readonly claimRef: string;
  readonly ttlSeconds?: number | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  readonly onExpire?: "destroy" | "archive" | undefined;
  readonly noRedirect?: boolean | undefined;
}

/** A checkpoint as its node lists it, under the name it was stamped with. */
export type NodeCheckpoint = Omit<Snapshot, "node">;

/** Calls of a node that copy a sandbox, or change what claims start from. Part of {@link NodeClient}. */
export interface NodeCaptures {
  /** The children as the node lists them. The signal ends it only while nothing was sent, as with `claim`. */
  fork(id: string, fork: NodeFork, options?: CallOptions): Promise<readonly NodeDelivery[]>;
  checkpoint(id: string, name: string, options?: CallOptions): Promise<NodeCheckpoint>;
  /** This node's checkpoints, newest first. */
  checkpoints(options?: CallOptions): Promise<readonly NodeCheckpoint[]>;
  /** The signal ends it only while nothing was sent, as with `claim`. Other nodes may be named that hold it. */
  claimCheckpoint(checkpointId: string, claim: NodeCheckpointClaim, options?: CallOptions): Promise<NodeClaimReply>;
  /** Resolves for a checkpoint that is already gone. */
  deleteCheckpoint(checkpointId: string, options?: CallOptions): Promise<void>;
  promote(id: string, template: string, options?: CallOptions): Promise<Promotion>;
  /** On this node alone. Resolves for a template that is already gone. With a digest only that build is deleted. */
  deleteTemplate(key: PoolKey, digest: string | undefined, options?: CallOptions): Promise<void>;
  /** Replaces all labels on this node. */
  setTemplateLabels(
    key: PoolKey,
    labels: Readonly<Record<string, string>>,
    digest: string | undefined,
    options?: CallOptions,
  ): Promise<void>;
  /** The promoted templates that this node holds now. */
  templates(options?: CallOptions): Promise<readonly PromotedTemplate[]>;
  /** Replaces the document that the guest reads about itself: one JSON object, kept byte for byte. */
  setInstanceMetadata(id: string, document: Uint8Array, options?: CallOptions): Promise<void>;
}

/** The fleet's node clients. They share one connection pool. */
export interface NodeClients {
  forAddress(address: string): NodeClient;
  /** Describes a rejection of a {@link NodeClient}. Foreign errors read as `uncertain`. */
  failure(error: unknown): NodeFailure;
}

/** Options of {@link SandboxStore.list}. */
export interface ListOptions extends CallOptions {
  /** Empty or absent lists every namespace. */
  readonly namespace?: string | undefined;
}

/** A place in the order by age: the one of the sandbox with this start and id. */
export interface AgePosition {
  /** Milliseconds since the epoch; 0 for a sandbox whose start no node reported. */
  readonly startedMs: number;
  readonly id: string;
}

/** Options of {@link SandboxStore.page}. */
export interface PageOptions extends ListOptions {
  /** @default false */
  readonly newestFirst?: boolean | undefined;
  /** Begin behind this place. */
  readonly after?: AgePosition | undefined;
  /** A positive whole number of sandboxes. @default all */
  readonly limit?: number | undefined;
  /** Which sandboxes are meant; asked about those alone that may come into the page. @default all */
  readonly matches?: ((sandbox: Sandbox) => boolean) | undefined;
}

/** Some sandboxes in order of their age. */
export interface SandboxPage {
  readonly sandboxes: readonly Sandbox[];
  /** Where to go on; absent when nothing follows. */
  readonly next?: AgePosition | undefined;
}

/** Options of {@link SandboxQueries.select} and {@link SandboxQueries.watch}. */
export interface SelectOptions extends ListOptions {
  /** Kubernetes label selector over the labels of a sandbox: equality and set forms. */
  readonly labelSelector?: string | undefined;
  /** `metadata.name`, `metadata.namespace` and `status.nodeName` with `=`, `==` and `!=`. */
  readonly fieldSelector?: string | undefined;
}

/** Options of {@link SandboxQueries.watch}. */
export interface WatchOptions extends SelectOptions {
  /** Send a bookmark once the sandboxes that are there already were sent. @default false */
  readonly bookmark?: boolean | undefined;
}

/** One change of a watch. `version` names the sandbox's content: equal content has equal versions. */
export type SandboxEvent =
  | { readonly type: "ADDED" | "MODIFIED" | "DELETED"; readonly sandbox: Sandbox; readonly version: string }
  /** What was there when the watch began has been sent. */
  | { readonly type: "BOOKMARK" };

/** Lists and watches with selectors. Part of {@link SandboxStore}. Store §9 and §10. */
export interface SandboxQueries {
  /**
   * The selected sandboxes, sorted as `list` does. With a namespace and exactly one name it is pinned: it finds a
   * sandbox that inventory does not show yet by asking the nodes.
   * @throws ScaleError `bad_request` for a selector that cannot be read or names another field.
   */
  select(options?: SelectOptions): Promise<readonly Sandbox[]>;
  /**
   * The selected sandboxes, then their changes, found by comparing inventory and our own writes once a second. Events
   * are never dropped: a reader that lags is waited for. Ends without an error when the signal fires or the reader
   * returns; one that does neither keeps the watch alive.
   *
   * A name has one sandbox at a time: of several claims the oldest that is selected. When another claim takes its
   * place the events are `DELETED` and `ADDED`; the same claim on another node is no event. Pinned as `select` is: then
   * it asks the node before it lets go of a sandbox that inventory does not show.
   * @throws ScaleError `bad_request` at once, before the first event.
   */
  watch(options?: WatchOptions): AsyncIterable<SandboxEvent>;
}

/** Copies of sandboxes. Part of {@link SandboxStore}. Store §11. */
export interface SandboxCaptures {
  /**
   * Running copies of a sandbox, all or none, named by their ids in the namespace. The parent goes on. A node that
   * does not take the names is too old: the copies are released again.
   * @throws ScaleError `bad_request` for a count below 1, and for a node that is too old.
   */
  fork(
    namespace: string,
    node: string,
    id: string,
    fork: {
      readonly count: number;
      readonly ttlSeconds?: number | undefined;
      readonly onExpire?: "destroy" | "archive" | undefined;
    },
    options?: CallOptions,
  ): Promise<readonly Assignment[]>;
  /**
   * A snapshot under a name of this namespace, which may be empty. The sandbox goes on.
   * @throws ScaleError `bad_request` for a name that does not fit; the message says how much room there is.
   */
  snapshot(namespace: string, node: string, id: string, name: string, options?: CallOptions): Promise<Snapshot>;
  /** One node's snapshots of this namespace, newest first, without the namespace in their names. */
  snapshots(namespace: string, node: string, options?: CallOptions): Promise<readonly Snapshot[]>;
  /** Resolves for a snapshot that is already gone. Check its namespace first, as for every verb. */
  deleteSnapshot(node: string, snapshotId: string, options?: CallOptions): Promise<void>;
  /**
   * A new sandbox out of a snapshot, on the node that holds it or one that it names. `promoted` does not apply, and
   * `noEgress` is refused. A node that does not take the claim's name is too old: the sandbox is released again.
   * @throws ScaleError `bad_request` for a node that is too old; `not_found` for an unknown snapshot.
   */
  claimSnapshot(
    namespace: string,
    name: string,
    node: string,
    snapshotId: string,
    options?: ClaimOptions,
  ): Promise<Assignment>;
  promote(node: string, id: string, template: string, options?: CallOptions): Promise<Promotion>;
  /** On one node. Resolves for a template that is already gone. With a digest only that build is deleted. */
  deleteTemplate(node: string, key: PoolKey, digest?: string, options?: CallOptions): Promise<void>;
  /** Replaces all labels of a template on one node. */
  setTemplateLabels(
    node: string,
    key: PoolKey,
    labels: Readonly<Record<string, string>>,
    digest?: string,
    options?: CallOptions,
  ): Promise<void>;
  /** The promoted templates that a node holds now. */
  nodeTemplates(node: string, options?: CallOptions): Promise<readonly PromotedTemplate[]>;
  setInstanceMetadata(node: string, id: string, document: Uint8Array, options?: CallOptions): Promise<void>;
}

/**
 * The fleet's sandboxes. Reads of many come from inventory (laid over with our own writes), reads of one may ask the
 * nodes, every verb is one call to one node. Verbs do not check the namespace: resolve the id inside it first.
 * Rejections are `ScaleError`s.
 */
export interface SandboxStore extends SandboxCaptures, SandboxQueries {
  claim(namespace: string, name: string, pool: PoolKey, options?: ClaimOptions): Promise<Assignment>;
  /**
   * Every listed sandbox, sorted by namespace, name and claim id in code-unit order. While nothing changes it is the
   * same array, and sandboxes that inventory did not list anew are the same objects in all of them.
   */
  list(options?: ListOptions): readonly Sandbox[];
  /**
   * Sandboxes in order of start and id, a page at a time, without those that have no id. A position is a place and not
   * a count, so that changes between two pages neither repeat a sandbox nor skip one. Costs far less than `list`, and
   * never holds the event loop for the whole fleet.
   * @throws ScaleError `bad_request` for a limit that is no positive whole number.
   */
  page(options?: PageOptions): Promise<SandboxPage>;
  /**
   * How many sandboxes a namespace has, paused ones included: those of readable nodes, with our own writes. Costs a
   * look at the views that changed since the last question, else nothing.
   */
  count(namespace: string): number;
  get(namespace: string, name: string, options?: CallOptions): Promise<Sandbox>;
  /**
   * The sandbox with this claim id, or with this public spelling of one. An empty namespace searches all of them.
   * `id` is the raw claim id to ask nodes with. `match` decides whether an entry's id is meant: it is asked about the
   * entry with this very id, about entries whose id is not in the nodes' own form (`sb_` and 16 hex digits), and about
   * rows that nodes send.
   */
  getByClaimId(
    namespace: string,
    id: string,
    match: (claimId: string) => boolean,
    options?: CallOptions,
  ): Promise<Sandbox>;
  /** What the owning node says now. `not_found` when the node does not know the id. */
  read(node: string, id: string, options?: CallOptions): Promise<SandboxRecord>;
  release(node: string, id: string, options?: CallOptions): Promise<void>;
  pause(node: string, id: string, options?: CallOptions): Promise<void>;
  resume(node: string, id: string, options?: CallOptions): Promise<void>;
  /** New lease of `ttlSeconds` from now; resolves with the granted deadline. It may shorten. */
  renew(
    node: string,
    id: string,
    lease: { readonly ttlSeconds: number; readonly onExpire?: "destroy" | "archive" | undefined },
    options?: CallOptions,
  ): Promise<Date | undefined>;
  /**
   * A raw connection to a guest port. With the sandbox's token it wakes a paused sandbox; with an empty token the
   * relay is passive and a paused sandbox is `node_refused` with status 409.
   */
  dialGuestPort(node: string, id: string, token: string, port: number, options?: CallOptions): Promise<Duplex>;
  /**
   * What a node's inventory, with our own writes, says of a sandbox now. Asks nobody and costs a map look-up, so it fits
   * before every request. `unlisted` when the node does not list it or not yet, `unknown` when its inventory can not be
   * read.
   */
  standing(node: string, id: string): "running" | "paused" | "unlisted" | "unknown";
  /** Called with node and id after a sandbox was released through this store. Returns the unsubscribe function. */
  onReleased(listener: (node: string, id: string) => void): () => void;
  /**
   * Called soon after reads may show something new: a published snapshot or a write of ours. Tells once of what comes
   * together, within a turn of the event loop where the source tells of its changes, else within `watchPollMs`. Returns
   * the unsubscribe function; until then a timer runs.
   */
  onChange(listener: () => void): () => void;
  /** Waits for claims whose callers left; they are released when they were delivered after all. */
  settled(): Promise<void>;
}

/** Log port. pino fits. Messages are constants; values travel as fields. */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}
