/**
 * What went wrong.
 * - `no_warm_capacity`: no candidate node, or none of them delivered; so with the nodes that hold a snapshot. Retryable.
 * - `routing_disabled`: the store was built without node clients.
 * - `claim_refused`: a node answered a claim with a 4xx; `status` and `nodeMessage` are the node's.
 * - `claim_failed`: the claim may have been delivered (timeout, lost reply) and is not tried elsewhere.
 * - `not_found`: no such sandbox, or its node says it is gone. `unanswered` nodes did not say whether they hold it.
 * - `node_refused`: a node answered a verb with another 4xx.
 * - `node_failed`: a node answered a verb with a 5xx, did not answer, or is too old for it; for `release`, `snapshots`,
 *   `deleteSnapshot` and `nodeTemplates` every failure of the node.
 * - `bad_request`: the caller's input can never succeed, or the node is too old to name a copy.
 * - `aborted`: the caller's signal ended the call.
 */
export type ScaleErrorCode =
  | "no_warm_capacity"
  | "routing_disabled"
  | "claim_refused"
  | "claim_failed"
  | "not_found"
  | "node_refused"
  | "node_failed"
  | "bad_request"
  | "aborted";

/** Where a {@link ScaleError} happened. */
export interface ScaleErrorDetails {
  readonly node?: string | undefined;
  readonly id?: string | undefined;
  readonly verb?: string | undefined;
  /** HTTP status of the node's answer, when there was one. */
  readonly status?: number | undefined;
  /** The node's own words. */
  readonly nodeMessage?: string | undefined;
  /** How many nodes did not answer when a sandbox was looked for, those included that could not be asked. */
  readonly unanswered?: number | undefined;
  readonly cause?: unknown;
}

/** The only error this package throws. `message` may name nodes: edges decide what a client may see. */
export class ScaleError extends Error {
  override readonly name = "ScaleError";
  readonly code: ScaleErrorCode;
  readonly node: string | undefined;
  readonly id: string | undefined;
  readonly verb: string | undefined;
  readonly status: number | undefined;
  readonly nodeMessage: string | undefined;
  /** With `not_found`: how many nodes of the inventory did not answer, so that one of them may hold the sandbox. */
  readonly unanswered: number;

  constructor(code: ScaleErrorCode, message: string, details: ScaleErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.node = details.node;
    this.id = details.id;
    this.verb = details.verb;
    this.status = details.status;
    this.nodeMessage = details.nodeMessage;
    this.unanswered = details.unanswered ?? 0;
  }
}

/** Whether `error` is a {@link ScaleError}, and of this code when one is given. Survives two copies of the package. */
export function isScaleError(error: unknown, code?: ScaleErrorCode): error is ScaleError {
  return (
    error instanceof Error &&
    error.name === "ScaleError" &&
    (code === undefined || ("code" in error && error.code === code))
  );
}
