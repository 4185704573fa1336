import type { PoolKey } from "../domain.ts";
import type {
  CallOptions,
  NodeCheckpointClaim,
  NodeClaim,
  NodeClaimReply,
  NodeClient,
  NodeFailure,
  NodeFork,
} from "../ports.ts";

/** The calls a `ScriptedNode` knows. */
export type ScriptedVerb = keyof NodeClient;

/** One call as a node saw it. */
export interface ScriptedCall {
  readonly address: string;
  readonly verb: ScriptedVerb;
  /** The id of the sandbox or checkpoint, or the claim reference of a list. */
  readonly id?: string | undefined;
  readonly claim?: NodeClaim | undefined;
  readonly checkpointClaim?: NodeCheckpointClaim | undefined;
  readonly fork?: NodeFork | undefined;
  readonly lease?: { readonly ttlSeconds: number; readonly onExpire?: "destroy" | "archive" | undefined } | undefined;
  readonly port?: number | undefined;
  readonly token?: string | undefined;
  /** The name of a checkpoint, or the template of a promotion. */
  readonly name?: string | undefined;
  readonly key?: PoolKey | undefined;
  readonly digest?: string | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly document?: Uint8Array | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Stands in for the node's own behaviour in one call: what it returns is the outcome, what it throws the failure. */
export type ScriptedStep = (call: ScriptedCall) => unknown;

/** The rejection of a scripted call. `ScriptedNodes.failure` reads it. */
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

/** A refusal by the node itself. */
export function refusal(status: number, nodeMessage: string): ScriptedFailure {
  return new ScriptedFailure({ kind: "status", status, nodeMessage });
}

/** The calls of one node: remembers them, and lets steps take the place of what the node would do. */
export class CallScript {
  readonly #address: string;
  readonly #calls: ScriptedCall[];
  readonly #steps = new Map<ScriptedVerb, ScriptedStep[]>();
  readonly #standing = new Map<ScriptedVerb, ScriptedStep>();

  constructor(address: string, calls: ScriptedCall[]) {
    this.#address = address;
    this.#calls = calls;
  }

  queue(verb: ScriptedVerb, steps: readonly ScriptedStep[]): void {
    this.#steps.set(verb, [...(this.#steps.get(verb) ?? []), ...steps]);
  }

  stand(verb: ScriptedVerb, step: ScriptedStep | undefined): void {
    if (step === undefined) {
      this.#standing.delete(verb);
    } else {
      this.#standing.set(verb, step);
    }
  }

  async run<T>(
    what: Omit<ScriptedCall, "address" | "signal">,
    options: CallOptions | undefined,
    usual: () => T,
  ): Promise<T> {
    if (options?.signal?.aborted === true) {
      throw new ScriptedFailure({ kind: "aborted" });
    }
    const call: ScriptedCall = { ...what, address: this.#address, signal: options?.signal };
    this.#calls.push(call);
    const step = this.#steps.get(call.verb)?.shift() ?? this.#standing.get(call.verb);
    // The outcome of a step is the test's own: the types cannot know it.
    return step === undefined ? usual() : ((await step(call)) as T);
  }
}
