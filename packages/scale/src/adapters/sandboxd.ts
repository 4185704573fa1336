/**
 * The node adapter: `NodeClients` over `@org/sandboxd-client`, and the pure mappings from a node's replies to
 * inventory. The only place of this package that knows the wire.
 */
import type { Duplex } from "node:stream";
import { createSandboxdClient, SandboxdError } from "@org/sandboxd-client";
import type { ClaimCallOptions, ClaimOutcome, NodePool, SandboxdClient } from "@org/sandboxd-client";
import { parseWireTime } from "@org/sandboxd-client/wire";
import type { CheckpointRecord, ClaimReply, ClaimRequest, InfoReply, SandboxRow } from "@org/sandboxd-client/wire";
import type { InventoryEntry, PoolCapacity, PoolKey, PromotedTemplate, Promotion } from "../domain.ts";
import type {
  CallOptions,
  NodeCheckpoint,
  NodeCheckpointClaim,
  NodeClaim,
  NodeClaimReply,
  NodeClient,
  NodeClients,
  NodeDelivery,
  NodeFailure,
  NodeFork,
  NodeSandbox,
} from "../ports.ts";

/** Options of {@link createNodeClients}. */
export interface NodeClientsOptions {
  /** Connections shared by all nodes. Stays open: it belongs to the caller. */
  readonly pool: NodePool;
  /** The fleet's root token. Absent or empty for open nodes. A secret. */
  readonly token?: string | undefined;
  /**
   * Bound of one request, in milliseconds.
   * @default 10000
   */
  readonly requestTimeoutMs?: number | undefined;
  /**
   * Bound of one fork, checkpoint or promotion, in milliseconds.
   * @default 600000
   */
  readonly captureTimeoutMs?: number | undefined;
}

/** Addresses come from inventory. A fleet whose addresses keep changing must not fill memory. */
const MAX_CLIENTS = 4096;

/**
 * Node clients over one connection pool and one fleet token. No I/O happens before the first call.
 * @throws TypeError for a token that cannot stand in a header; the message does not repeat it.
 */
export function createNodeClients(options: NodeClientsOptions): NodeClients {
  const { pool, token, requestTimeoutMs, captureTimeoutMs } = options;
  if (token !== undefined && !/^[\x21-\x7e]*$/.test(token)) {
    throw new TypeError("the node token must be printable ASCII without spaces or line ends");
  }
  const clients = new Map<string, NodeClient>();
  return {
    forAddress(address) {
      const known = clients.get(address);
      if (known !== undefined) {
        return known;
      }
      if (clients.size >= MAX_CLIENTS) {
        clients.clear();
      }
      const client = new WireNodeClient(
        createSandboxdClient({ address, token, pool, requestTimeoutMs, captureTimeoutMs }),
      );
      clients.set(address, client);
      return client;
    },
    failure: failureOf,
  };
}

class WireNodeClient implements NodeClient {
  readonly #client: SandboxdClient;

  constructor(client: SandboxdClient) {
    this.#client = client;
  }

  claim(claim: NodeClaim, options: CallOptions = {}): Promise<NodeClaimReply> {
    return this.#client.claim(claimRequest(claim), unsent(options)).then(replyOf);
  }

  async sandbox(id: string, options?: CallOptions): Promise<NodeSandbox | undefined> {
    try {
      const row = await this.#client.sandbox(id, options);
      return row === undefined ? undefined : { ...sandboxFromRow(row), answeredAt: row.answeredAt };
    } catch (error) {
      // An id that no request can carry is no node's: not knowing it is an answer, other than silence.
      if (error instanceof SandboxdError && error.code === "bad_request") {
        return undefined;
      }
      throw error;
    }
  }

  async sandboxesByRef(claimRef: string, options?: CallOptions): Promise<readonly NodeSandbox[]> {
    return (await this.#client.index({ claimRef }, options)).map(sandboxFromRow);
  }

  release(id: string, options?: CallOptions): Promise<void> {
    return this.#client.release(id, options);
  }

  hibernate(id: string, options?: CallOptions): Promise<void> {
    return this.#client.hibernate(id, options);
  }

  wake(id: string, options?: CallOptions): Promise<void> {
    return this.#client.wake(id, options);
  }

  renew(
    id: string,
    lease: { readonly ttlSeconds: number; readonly onExpire?: "destroy" | "archive" | undefined },
    options?: CallOptions,
  ): Promise<Date | undefined> {
    return this.#client.renew(id, { ttl_seconds: lease.ttlSeconds, on_expire: lease.onExpire }, options);
  }

  dialPort(id: string, port: number, token: string, options?: CallOptions): Promise<Duplex> {
    return this.#client.dialPort(id, port, token, options);
  }

  fork(id: string, fork: NodeFork, options: CallOptions = {}): Promise<readonly NodeDelivery[]> {
    const request = {
      count: fork.count,
      ttl_seconds: fork.ttlSeconds || undefined,
      claim_ref_prefix: fork.claimRefPrefix,
      on_expire: fork.onExpire,
    };
    return this.#client.fork(id, request, unsent(options)).then((replies) => replies.map(deliveryOf));
  }

  async checkpoint(id: string, name: string, options?: CallOptions): Promise<NodeCheckpoint> {
    return checkpointFromRecord(await this.#client.checkpoint(id, { name }, options));
  }

  async checkpoints(options?: CallOptions): Promise<readonly NodeCheckpoint[]> {
    return (await this.#client.checkpoints(options)).map(checkpointFromRecord);
  }

  claimCheckpoint(
    checkpointId: string,
    claim: NodeCheckpointClaim,
    options: CallOptions = {},
  ): Promise<NodeClaimReply> {
    const request = {
      ttl_seconds: claim.ttlSeconds || undefined,
      claim_ref: claim.claimRef,
      metadata: claim.metadata,
      on_expire: claim.onExpire,
      no_redirect: claim.noRedirect === true ? true : undefined,
    };
    return this.#client.claimCheckpoint(checkpointId, request, unsent(options)).then(replyOf);
  }

  deleteCheckpoint(checkpointId: string, options?: CallOptions): Promise<void> {
    return this.#client.deleteCheckpoint(checkpointId, options);
  }

  async promote(id: string, template: string, options?: CallOptions): Promise<Promotion> {
    const { key, content_digest } = await this.#client.promote(id, { template }, options);
    return { key, contentDigest: content_digest };
  }

  deleteTemplate(key: PoolKey, digest: string | undefined, options?: CallOptions): Promise<void> {
    return this.#client.deleteTemplate(key, digest, options);
  }

  setTemplateLabels(
    key: PoolKey,
    labels: Readonly<Record<string, string>>,
    digest: string | undefined,
    options?: CallOptions,
  ): Promise<void> {
    return this.#client.setTemplateLabels(key, labels, digest, options);
  }

  async templates(options?: CallOptions): Promise<readonly PromotedTemplate[]> {
    return templatesFromInfo(await this.#client.info(options));
  }

  setInstanceMetadata(id: string, document: Uint8Array, options?: CallOptions): Promise<void> {
    return this.#client.setInstanceMetadata(id, document, options);
  }
}

/** The caller's signal, while nothing is sent: after that sandboxes may come of it. */
function unsent({ signal }: CallOptions): ClaimCallOptions {
  return { signal, untilSent: true };
}

function replyOf(outcome: ClaimOutcome): NodeClaimReply {
  return outcome.kind === "delivered" ? deliveryOf(outcome.reply) : outcome;
}

function deliveryOf(reply: ClaimReply): NodeDelivery {
  return {
    kind: "delivered",
    id: reply.id,
    token: reply.token,
    deadline: parseWireTime(reply.deadline),
    ownerAddress: reply.owner_addr,
    netRoute: reply.net_route,
    fromCheckpoint: reply.from_checkpoint,
  };
}

function checkpointFromRecord(record: CheckpointRecord): NodeCheckpoint {
  return {
    id: record.id,
    name: record.name ?? "",
    sandboxId: record.sandbox_id,
    pool: record.key,
    createdAt: parseWireTime(record.created_at),
  };
}

/** What is left undefined here is left out of the body. */
function claimRequest(claim: NodeClaim): ClaimRequest {
  return {
    template: claim.pool.template,
    net: claim.pool.net || undefined,
    size: claim.pool.size || undefined,
    ttl_seconds: claim.ttlSeconds || undefined,
    claim_ref: claim.claimRef,
    metadata: claim.metadata,
    on_expire: claim.onExpire,
    no_redirect: claim.noRedirect === true ? true : undefined,
    require_promoted: claim.requirePromoted === true ? true : undefined,
    egress: claim.noEgress === true ? false : undefined,
  };
}

/** What a node's router answers to an unknown route says that the node is too old, not that a sandbox is gone. */
const ROUTE_MISSING = 501;

function failureOf(error: unknown): NodeFailure {
  if (!(error instanceof SandboxdError)) {
    return { kind: "uncertain", detail: error instanceof Error ? error.message : undefined };
  }
  if (error.routeMissing) {
    // The router's text tells a user nothing; ours names the route.
    return { kind: "status", status: ROUTE_MISSING, detail: error.message };
  }
  if (error.status !== undefined && error.status >= 400) {
    return { kind: "status", status: error.status, nodeMessage: error.nodeMessage };
  }
  if (error.delivery === "maybe") {
    return { kind: "uncertain", detail: error.message };
  }
  return { kind: error.code === "aborted" ? "aborted" : "unsent", detail: error.message };
}

function sandboxFromRow(row: SandboxRow): NodeSandbox {
  return { entry: entryFromRow(row), archived: row.archived === true, token: row.token };
}

/** The inventory entry of a row: named after its claim reference, else its id; hibernated and archived are paused. */
export function entryFromRow(row: SandboxRow): InventoryEntry {
  const name = row.claim_ref || row.id;
  return {
    name,
    id: row.id,
    phase: row.hibernated || row.archived === true ? "Hibernated" : "Running",
    template: row.key.template || undefined,
    net: row.key.net,
    size: row.key.size,
    claimRef: name,
    deadline: parseWireTime(row.deadline),
    claimedAt: parseWireTime(row.claimed_at),
    metadata: present(row.metadata),
    cpuCount: count(row.cpu_count) || undefined,
    memoryBytes: count(row.mem_total_bytes) || undefined,
  };
}

/** The pools that a node reports. Counts that are no whole number from 0 read as 0. */
export function poolsFromInfo(info: Pick<InfoReply, "pools">): readonly PoolCapacity[] {
  return (info.pools ?? []).map((pool) => ({
    template: pool.key.template,
    net: pool.key.net,
    size: pool.key.size,
    warm: count(pool.warm),
    target: count(pool.target),
  }));
}

/** The promoted templates that a node reports. */
export function templatesFromInfo(info: Pick<InfoReply, "templates">): readonly PromotedTemplate[] {
  return (info.templates ?? []).map((template) => ({
    template: template.key.template,
    net: template.key.net,
    size: template.key.size,
    contentDigest: template.content_digest,
    tenant: template.tenant ?? "",
    createdAt: parseWireTime(template.created_at),
    cpuCount: count(template.cpu_count) || undefined,
    memoryBytes: count(template.mem_total_bytes) || undefined,
    labels: present(template.labels),
  }));
}

function count(value: number | undefined): number {
  return value !== undefined && Number.isSafeInteger(value) && value > 0 ? value : 0;
}

function present(map: Readonly<Record<string, string>> | undefined): Readonly<Record<string, string>> | undefined {
  return map === undefined || Object.keys(map).length === 0 ? undefined : map;
}
