import type { Duplex } from "node:stream";
import type {
  Assignment,
  ClaimOptions,
  InventoryEntry,
  NodeInventory,
  NodePools,
  PoolKey,
  Sandbox,
  SandboxRecord,
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
}

/** One node's API as the store needs it. Every rejection is described by {@link NodeClients.failure}. */
export interface NodeClient {
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

/**
 * The fleet's sandboxes. Reads of many come from inventory (laid over with our own writes), reads of one may ask the
 * nodes, every verb is one call to one node. Verbs do not check the namespace: resolve the id inside it first.
 * Rejections are `ScaleError`s.
 */
export interface SandboxStore {
  claim(namespace: string, name: string, pool: PoolKey, options?: ClaimOptions): Promise<Assignment>;
  /** Every listed sandbox, sorted by namespace and name in code-unit order. */
  list(options?: ListOptions): readonly Sandbox[];
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
  /** Called with node and id after a sandbox was released through this store. Returns the unsubscribe function. */
  onReleased(listener: (node: string, id: string) => void): () => void;
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
