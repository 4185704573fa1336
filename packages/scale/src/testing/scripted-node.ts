import type { Duplex } from "node:stream";
import { duplexPair } from "node:stream";
import type { InventoryEntry, NodeInventory, PoolCapacity, PoolKey, PromotedTemplate, Promotion } from "../domain.ts";
import type {
  CallOptions,
  NodeCheckpoint,
  NodeCheckpointClaim,
  NodeClaim,
  NodeClaimReply,
  NodeClient,
  NodeDelivery,
  NodeFork,
  NodeSandbox,
} from "../ports.ts";
import { CallScript, refusal } from "./scripted-calls.ts";
import type { ScriptedCall, ScriptedFailure, ScriptedStep, ScriptedVerb } from "./scripted-calls.ts";
import { checkCapture, ScriptedCaptures } from "./scripted-captures.ts";

/** The fleet that a {@link ScriptedNode} belongs to. */
export interface ScriptedFleet {
  readonly calls: ScriptedCall[];
  /** A fresh id: the prefix and 16 hexadecimal digits. */
  readonly nextId: (prefix: "sb_" | "ck_") => string;
  /** Addresses of other nodes that hold this checkpoint. */
  readonly holders: (checkpointId: string, besides: ScriptedNode) => readonly string[];
}

const DEFAULT_TTL_SECONDS = 300;
/** How many owners a claim of a checkpoint is redirected to. */
const MAX_OWNERS = 3;

/**
 * One node in memory. Unscripted it behaves like a small node that never runs out: claims and forks make rows, the
 * verbs change them, guest ports answer when a guest was set. Steps set with {@link script} come first, one call each.
 */
export class ScriptedNode implements NodeClient {
  readonly address: string;
  readonly #fleet: ScriptedFleet;
  readonly #script: CallScript;
  readonly #captures = new ScriptedCaptures();
  readonly #held = new Map<string, NodeSandbox>();
  readonly #guests = new Map<number, (socket: Duplex) => void>();

  constructor(address: string, fleet: ScriptedFleet) {
    this.address = address;
    this.#fleet = fleet;
    this.#script = new CallScript(address, fleet.calls);
  }

  /** Queues steps for the next calls of a verb. When they are used up the node behaves as usual again. */
  script(verb: ScriptedVerb, ...steps: readonly ScriptedStep[]): this {
    this.#script.queue(verb, steps);
    return this;
  }

  /** Sets the step of every call of a verb that no queued step takes; `undefined` restores the usual behaviour. */
  always(verb: ScriptedVerb, step: ScriptedStep | undefined): this {
    this.#script.stand(verb, step);
    return this;
  }

  /** Serves a guest port of every running sandbox; `undefined` closes it. */
  guest(port: number, serve: ((socket: Duplex) => void) | undefined): this {
    if (serve === undefined) {
      this.#guests.delete(port);
    } else {
      this.#guests.set(port, serve);
    }
    return this;
  }

  /** The node's rows. */
  get sandboxes(): readonly NodeSandbox[] {
    return [...this.#held.values()];
  }

  /** Adds or replaces a row, as if another client had claimed it. */
  hold(row: NodeSandbox): void {
    this.#held.set(row.entry.id, row);
  }

  /** Loses a row without any call, as the reaper does. */
  lose(id: string): void {
    this.#held.delete(id);
  }

  /** Whether this node holds a checkpoint. */
  holdsCheckpoint(checkpointId: string): boolean {
    return this.#captures.sourceOf(checkpointId) !== undefined;
  }

  /** The document that a guest reads about itself. */
  instanceMetadata(id: string): Uint8Array | undefined {
    return this.#captures.documentOf(id);
  }

  /** What a poll would publish of this node now. The node key is the address. */
  inventory(
    extra: {
      readonly node?: string | undefined;
      readonly pools?: readonly PoolCapacity[] | undefined;
      readonly templates?: readonly PromotedTemplate[] | undefined;
    } = {},
  ): NodeInventory {
    return {
      node: extra.node ?? this.address,
      address: this.address,
      pools: extra.pools ?? [],
      templates: [...(extra.templates ?? []), ...this.#captures.templates],
      entries: this.sandboxes.map((row) => row.entry),
      asOfMs: performance.now(),
    };
  }

  claim(claim: NodeClaim, options?: CallOptions): Promise<NodeClaimReply> {
    const { template, net, size } = claim.pool;
    return this.#script.run<NodeClaimReply>({ verb: "claim", claim }, options, () =>
      this.#deliver({ template, net: net ?? "none", size: size ?? "small", metadata: claim.metadata }, claim),
    );
  }

  sandbox(id: string, options?: CallOptions): Promise<NodeSandbox | undefined> {
    return this.#script.run<NodeSandbox | undefined>({ verb: "sandbox", id }, options, () => this.#held.get(id));
  }

  sandboxesByRef(claimRef: string, options?: CallOptions): Promise<readonly NodeSandbox[]> {
    return this.#script.run<readonly NodeSandbox[]>({ verb: "sandboxesByRef", id: claimRef }, options, () =>
      this.sandboxes
        .filter((row) => row.entry.claimRef === claimRef)
        .map((row) => ({ entry: row.entry, archived: row.archived })),
    );
  }

  release(id: string, options?: CallOptions): Promise<void> {
    return this.#script.run<void>({ verb: "release", id }, options, () => {
      this.#held.delete(id);
    });
  }

  hibernate(id: string, options?: CallOptions): Promise<void> {
    return this.#script.run<void>({ verb: "hibernate", id }, options, () => {
      this.#change(id, { phase: "Hibernated" });
    });
  }

  wake(id: string, options?: CallOptions): Promise<void> {
    return this.#script.run<void>({ verb: "wake", id }, options, () => {
      this.#change(id, { phase: "Running" });
    });
  }

  renew(
    id: string,
    lease: { readonly ttlSeconds: number; readonly onExpire?: "destroy" | "archive" | undefined },
    options?: CallOptions,
  ): Promise<Date | undefined> {
    return this.#script.run<Date | undefined>({ verb: "renew", id, lease }, options, () => {
      const deadline = deadlineIn(lease.ttlSeconds);
      this.#change(id, { deadline });
      return deadline;
    });
  }

  dialPort(id: string, port: number, token: string, options?: CallOptions): Promise<Duplex> {
    return this.#script.run<Duplex>({ verb: "dialPort", id, port, token }, options, () => {
      const row = this.#row(id);
      if (token !== "" && row.token !== undefined && token !== row.token) {
        throw unknownSandbox();
      }
      if (row.entry.phase !== "Running") {
        if (token === "") {
          throw refusal(409, "sandbox is paused");
        }
        this.#change(id, { phase: "Running" });
      }
      const serve = this.#guests.get(port);
      if (serve === undefined) {
        throw refusal(502, "guest port unreachable");
      }
      const [ours, theirs] = duplexPair();
      serve(theirs);
      return ours;
    });
  }

  fork(id: string, fork: NodeFork, options?: CallOptions): Promise<readonly NodeDelivery[]> {
    return this.#script.run<readonly NodeDelivery[]>({ verb: "fork", id, fork }, options, () => {
      this.#captures.checkForkCount(fork.count);
      const parent = this.#row(id);
      checkCapture(parent);
      return Array.from({ length: fork.count }, () =>
        this.#deliver(parent.entry, { ...fork, claimRef: (child) => `${fork.claimRefPrefix}${child}` }),
      );
    });
  }

  checkpoint(id: string, name: string, options?: CallOptions): Promise<NodeCheckpoint> {
    return this.#script.run<NodeCheckpoint>({ verb: "checkpoint", id, name }, options, () =>
      this.#captures.checkpoint(this.#fleet.nextId("ck_"), this.#row(id), name),
    );
  }

  checkpoints(options?: CallOptions): Promise<readonly NodeCheckpoint[]> {
    return this.#script.run<readonly NodeCheckpoint[]>(
      { verb: "checkpoints" },
      options,
      () => this.#captures.checkpoints,
    );
  }

  claimCheckpoint(
    checkpointId: string,
    checkpointClaim: NodeCheckpointClaim,
    options?: CallOptions,
  ): Promise<NodeClaimReply> {
    const call = { verb: "claimCheckpoint", id: checkpointId, checkpointClaim } as const;
    return this.#script.run<NodeClaimReply>(call, options, () => {
      const source = this.#captures.sourceOf(checkpointId);
      if (source !== undefined) {
        const delivery = this.#deliver({ ...source, metadata: checkpointClaim.metadata }, checkpointClaim);
        return { ...delivery, fromCheckpoint: checkpointId };
      }
      const targets =
        checkpointClaim.noRedirect === true ? [] : this.#fleet.holders(checkpointId, this).slice(0, MAX_OWNERS);
      if (targets.length === 0) {
        throw refusal(404, "unknown checkpoint");
      }
      return { kind: "redirect", targets, requirePromoted: false };
    });
  }

  deleteCheckpoint(checkpointId: string, options?: CallOptions): Promise<void> {
    return this.#script.run<void>({ verb: "deleteCheckpoint", id: checkpointId }, options, () =>
      this.#captures.deleteCheckpoint(checkpointId),
    );
  }

  promote(id: string, template: string, options?: CallOptions): Promise<Promotion> {
    return this.#script.run<Promotion>({ verb: "promote", id, name: template }, options, () =>
      this.#captures.promote(this.#row(id), template),
    );
  }

  deleteTemplate(key: PoolKey, digest: string | undefined, options?: CallOptions): Promise<void> {
    return this.#script.run<void>({ verb: "deleteTemplate", key, digest }, options, () =>
      this.#captures.deleteTemplate(key, digest),
    );
  }

  setTemplateLabels(
    key: PoolKey,
    labels: Readonly<Record<string, string>>,
    digest: string | undefined,
    options?: CallOptions,
  ): Promise<void> {
    return this.#script.run<void>({ verb: "setTemplateLabels", key, labels, digest }, options, () =>
      this.#captures.setTemplateLabels(key, labels, digest),
    );
  }

  templates(options?: CallOptions): Promise<readonly PromotedTemplate[]> {
    return this.#script.run<readonly PromotedTemplate[]>(
      { verb: "templates" },
      options,
      () => this.#captures.templates,
    );
  }

  setInstanceMetadata(id: string, document: Uint8Array, options?: CallOptions): Promise<void> {
    return this.#script.run<void>({ verb: "setInstanceMetadata", id, document }, options, () =>
      this.#captures.setDocument(this.#row(id), document),
    );
  }

  /** Makes a row like `source`, with an id and a lease of its own. */
  #deliver(
    source: Pick<InventoryEntry, "template" | "net" | "size" | "metadata" | "cpuCount" | "memoryBytes">,
    claim: { readonly claimRef: string | ((id: string) => string); readonly ttlSeconds?: number | undefined },
  ): NodeDelivery {
    const { template, net, size, metadata, cpuCount, memoryBytes } = source;
    const id = this.#fleet.nextId("sb_");
    const token = id.slice(3).repeat(2);
    const deadline = deadlineIn(claim.ttlSeconds ?? 0);
    const claimRef = typeof claim.claimRef === "string" ? claim.claimRef : claim.claimRef(id);
    this.#held.set(id, {
      archived: false,
      token,
      entry: {
        name: claimRef,
        id,
        phase: "Running",
        template,
        net,
        size,
        claimRef,
        deadline,
        claimedAt: new Date(),
        metadata,
        cpuCount,
        memoryBytes,
      },
    });
    return { kind: "delivered", id, token, deadline, ownerAddress: this.address, netRoute: "relay" };
  }

  #row(id: string): NodeSandbox {
    const row = this.#held.get(id);
    if (row === undefined) {
      throw unknownSandbox();
    }
    return row;
  }

  #change(id: string, change: Partial<InventoryEntry>): void {
    const row = this.#row(id);
    this.#held.set(id, { ...row, archived: false, entry: { ...row.entry, ...change } });
  }
}

function unknownSandbox(): ScriptedFailure {
  return refusal(404, "unknown sandbox");
}

function deadlineIn(ttlSeconds: number): Date {
  return new Date(Date.now() + (ttlSeconds > 0 ? ttlSeconds : DEFAULT_TTL_SECONDS) * 1000);
}
