import type { Duplex } from "node:stream";
import { duplexPair } from "node:stream";
import type { NodeInventory, PoolCapacity, PromotedTemplate } from "../domain.ts";
import type {
  CallOptions,
  NodeClaim,
  NodeClaimReply,
  NodeClient,
  NodeClients,
  NodeFailure,
  NodeSandbox,
} from "../ports.ts";

/** The calls a {@link ScriptedNode} knows. */
export type ScriptedVerb = keyof NodeClient;

/** One call as a node saw it. */
export interface ScriptedCall {
  readonly address: string;
  readonly verb: ScriptedVerb;
  /** The sandbox id, or the claim reference of a list. */
  readonly id?: string | undefined;
  readonly claim?: NodeClaim | undefined;
  readonly lease?: { readonly ttlSeconds: number; readonly onExpire?: "destroy" | "archive" | undefined } | undefined;
  readonly port?: number | undefined;
  readonly token?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Stands in for the node's own behaviour in one call: what it returns is the outcome, what it throws the failure. */
export type ScriptedStep = (call: ScriptedCall) => unknown;

/** The rejection of a scripted call. {@link ScriptedNodes.failure} reads it. */
export class ScriptedFailure extends Error {
  override readonly name = "ScriptedFailure";
  readonly failure: NodeFailure;

  constructor(failure: NodeFailure) {
    super(failure.nodeMessage ?? failure.kind);
    this.failure = failure;
  }
}

/** A step that fails. */
export function fails(failure: NodeFailure): ScriptedStep {
  return () => {
    throw new ScriptedFailure(failure);
  };
}

/** A step with an HTTP error status. */
export function answers(status: number, nodeMessage?: string): ScriptedStep {
  return fails({ kind: "status", status, nodeMessage });
}

/** A step that redirects a claim. */
export function redirects(targets: readonly string[], requirePromoted = false): ScriptedStep {
  return (): NodeClaimReply => ({ kind: "redirect", targets, requirePromoted });
}

/** A step that never answers. The call ends when its signal aborts, or never. */
export function staysSilent(): ScriptedStep {
  return (call) =>
    new Promise((_resolve, reject) => {
      const end = (): void => reject(new ScriptedFailure({ kind: "uncertain", nodeMessage: "no answer" }));
      call.signal?.addEventListener("abort", end, { once: true });
    });
}

interface Held {
  row: NodeSandbox;
  ttlSeconds: number;
}

const DEFAULT_TTL_SECONDS = 300;

/**
 * One node in memory. Unscripted it behaves like a small node that never runs out: claims make rows, the verbs change
 * them, guest ports answer when a guest was set. Steps set with {@link script} come first, one call each.
 */
export class ScriptedNode implements NodeClient {
  readonly address: string;
  readonly #calls: ScriptedCall[];
  readonly #held = new Map<string, Held>();
  readonly #steps = new Map<ScriptedVerb, ScriptedStep[]>();
  readonly #standing = new Map<ScriptedVerb, ScriptedStep>();
  readonly #guests = new Map<number, (socket: Duplex) => void>();
  readonly #nextId: () => string;

  constructor(address: string, calls: ScriptedCall[], nextId: () => string) {
    this.address = address;
    this.#calls = calls;
    this.#nextId = nextId;
  }

  /** Queues steps for the next calls of a verb. When they are used up the node behaves as usual again. */
  script(verb: ScriptedVerb, ...steps: readonly ScriptedStep[]): this {
    this.#steps.set(verb, [...(this.#steps.get(verb) ?? []), ...steps]);
    return this;
  }

  /** Sets the step of every call of a verb that no queued step takes; `undefined` restores the usual behaviour. */
  always(verb: ScriptedVerb, step: ScriptedStep | undefined): this {
    if (step === undefined) {
      this.#standing.delete(verb);
    } else {
      this.#standing.set(verb, step);
    }
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
    return [...this.#held.values()].map((held) => held.row);
  }

  /** Adds or replaces a row, as if another client had claimed it. */
  hold(row: NodeSandbox): void {
    this.#held.set(row.entry.id, { row, ttlSeconds: DEFAULT_TTL_SECONDS });
  }

  /** Loses a row without any call, as the reaper does. */
  lose(id: string): void {
    this.#held.delete(id);
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
      templates: extra.templates ?? [],
      entries: this.sandboxes.map((row) => row.entry),
      asOfMs: performance.now(),
    };
  }

  claim(claim: NodeClaim, options?: CallOptions): Promise<NodeClaimReply> {
    return this.#call<NodeClaimReply>({ verb: "claim", claim }, options, () => this.#deliver(claim));
  }

  sandbox(id: string, options?: CallOptions): Promise<NodeSandbox | undefined> {
    return this.#call<NodeSandbox | undefined>({ verb: "sandbox", id }, options, () => this.#held.get(id)?.row);
  }

  sandboxesByRef(claimRef: string, options?: CallOptions): Promise<readonly NodeSandbox[]> {
    return this.#call<readonly NodeSandbox[]>({ verb: "sandboxesByRef", id: claimRef }, options, () =>
      this.sandboxes
        .filter((row) => row.entry.claimRef === claimRef)
        .map((row) => ({ entry: row.entry, archived: row.archived })),
    );
  }

  release(id: string, options?: CallOptions): Promise<void> {
    return this.#call<void>({ verb: "release", id }, options, () => {
      this.#held.delete(id);
    });
  }

  hibernate(id: string, options?: CallOptions): Promise<void> {
    return this.#call<void>({ verb: "hibernate", id }, options, () => {
      this.#change(id, { phase: "Hibernated" });
    });
  }

  wake(id: string, options?: CallOptions): Promise<void> {
    return this.#call<void>({ verb: "wake", id }, options, () => {
      this.#change(id, { phase: "Running" });
    });
  }

  renew(
    id: string,
    lease: { readonly ttlSeconds: number; readonly onExpire?: "destroy" | "archive" | undefined },
    options?: CallOptions,
  ): Promise<Date | undefined> {
    return this.#call<Date | undefined>({ verb: "renew", id, lease }, options, () => {
      const deadline = deadlineIn(lease.ttlSeconds);
      this.#change(id, { deadline });
      return deadline;
    });
  }

  dialPort(id: string, port: number, token: string, options?: CallOptions): Promise<Duplex> {
    return this.#call<Duplex>({ verb: "dialPort", id, port, token }, options, () => {
      const { row } = this.#get(id);
      if (token !== "" && row.token !== undefined && token !== row.token) {
        throw unknownSandbox();
      }
      if (row.entry.phase !== "Running") {
        if (token === "") {
          throw new ScriptedFailure({ kind: "status", status: 409, nodeMessage: "sandbox is paused" });
        }
        this.#change(id, { phase: "Running" });
      }
      const serve = this.#guests.get(port);
      if (serve === undefined) {
        throw new ScriptedFailure({ kind: "status", status: 502, nodeMessage: "guest port unreachable" });
      }
      const [ours, theirs] = duplexPair();
      serve(theirs);
      return ours;
    });
  }

  #deliver(claim: NodeClaim): NodeClaimReply {
    const id = this.#nextId();
    const token = id.slice(3).repeat(2);
    const ttlSeconds = claim.ttlSeconds ?? 0;
    const deadline = deadlineIn(ttlSeconds);
    this.#held.set(id, {
      ttlSeconds,
      row: {
        archived: false,
        token,
        entry: {
          name: claim.claimRef,
          id,
          phase: "Running",
          template: claim.pool.template,
          net: claim.pool.net ?? "none",
          size: claim.pool.size ?? "small",
          claimRef: claim.claimRef,
          deadline,
          claimedAt: new Date(),
          metadata: claim.metadata,
        },
      },
    });
    return { kind: "delivered", id, token, deadline, ownerAddress: this.address, netRoute: "relay" };
  }

  #get(id: string): Held {
    const held = this.#held.get(id);
    if (held === undefined) {
      throw unknownSandbox();
    }
    return held;
  }

  #change(id: string, change: Partial<NodeSandbox["entry"]>): void {
    const held = this.#get(id);
    held.row = { ...held.row, archived: false, entry: { ...held.row.entry, ...change } };
  }

  async #call<T>(
    what: Omit<ScriptedCall, "address" | "signal">,
    options: CallOptions | undefined,
    usual: () => T,
  ): Promise<T> {
    if (options?.signal?.aborted === true) {
      throw new ScriptedFailure({ kind: "aborted" });
    }
    const call: ScriptedCall = { ...what, address: this.address, signal: options?.signal };
    this.#calls.push(call);
    const step = this.#steps.get(call.verb)?.shift() ?? this.#standing.get(call.verb);
    // The outcome of a step is the test's own: the types cannot know it.
    return step === undefined ? usual() : ((await step(call)) as T);
  }
}

/** A fleet of {@link ScriptedNode}s that remembers every call in order. */
export class ScriptedNodes implements NodeClients {
  readonly calls: ScriptedCall[] = [];
  readonly #nodes = new Map<string, ScriptedNode>();
  #made = 0;

  /** The node at this address, made on first use. */
  node(address: string): ScriptedNode {
    const known = this.#nodes.get(address);
    if (known !== undefined) {
      return known;
    }
    const node = new ScriptedNode(address, this.calls, () => `sb_${(this.#made += 1).toString(16).padStart(16, "0")}`);
    this.#nodes.set(address, node);
    return node;
  }

  forAddress(address: string): ScriptedNode {
    return this.node(address);
  }

  failure(error: unknown): NodeFailure {
    return error instanceof ScriptedFailure ? error.failure : { kind: "uncertain" };
  }
}

function unknownSandbox(): ScriptedFailure {
  return new ScriptedFailure({ kind: "status", status: 404, nodeMessage: "unknown sandbox" });
}

function deadlineIn(ttlSeconds: number): Date {
  return new Date(Date.now() + (ttlSeconds > 0 ? ttlSeconds : DEFAULT_TTL_SECONDS) * 1000);
}
