import { ScaleError } from "./errors.ts";
import type { Verb } from "./node-calls.ts";
import type { NodeClients, NodeFailure } from "./ports.ts";

/** A node's failure in a few words, for logs and messages. */
export function describeFailure(failure: NodeFailure): string {
  const what = failure.status === undefined ? failure.kind : `status ${failure.status}`;
  const words = failure.nodeMessage || failure.detail;
  return words === undefined || words === "" ? what : `${what}: ${words}`;
}

/** The error of a verb that a node refused or failed. */
export function verbError(clients: NodeClients, error: unknown, verb: Verb): ScaleError {
  if (error instanceof ScaleError) {
    return error;
  }
  const failure = clients.failure(error);
  const reason = failure.nodeMessage || describeFailure(failure);
  const of = verb.id === undefined ? "" : ` of "${verb.id}"`;
  return new ScaleError(verbCode(failure, verb), `sandboxd ${verb.verb}${of} on node "${verb.node}": ${reason}`, {
    verb: verb.verb,
    node: verb.node,
    id: verb.id,
    status: failure.status,
    nodeMessage: failure.nodeMessage,
    cause: error,
  });
}

function verbCode(failure: NodeFailure, verb: Verb): "aborted" | "not_found" | "node_refused" | "node_failed" {
  if (failure.kind === "aborted") {
    return "aborted";
  }
  if (verb.plain === true || failure.kind !== "status" || failure.status === undefined || failure.status >= 500) {
    return "node_failed";
  }
  return failure.status === 404 ? "not_found" : "node_refused";
}
