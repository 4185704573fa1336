import { ScaleError } from "./errors.ts";
import type { NodeClients, NodeFailure } from "./ports.ts";

/** One verb of one node. Errors name all of it. */
export interface Verb {
  readonly verb: string;
  readonly node: string;
  /** The sandbox, snapshot or template that the verb is about; absent for verbs about the node. */
  readonly id?: string | undefined;
  /** Every failure is `node_failed`, whatever the node's status. Store §12.2. */
  readonly plain?: boolean | undefined;
}

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
