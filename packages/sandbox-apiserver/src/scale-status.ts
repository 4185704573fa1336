import type { ScaleError, ScaleErrorCode } from "@org/scale";
import { ApiStatusError, badRequest, conflict, internalError, notFound, timedOut, unavailable } from "./api-status.ts";

/** Seconds after which a claim that found nothing warm may be tried again. */
const RETRY_CLAIM_S = 1;

/** What a failed verb or claim was about. */
interface Subject {
  readonly name: string;
  /** The words of an error that names no node. */
  readonly what: string;
}

type Rule = (error: ScaleError, subject: Subject) => ApiStatusError;

/** Reasons that Kubernetes has for statuses of nodes. */
const REASONS: ReadonlyMap<number, string> = new Map([
  [400, "BadRequest"],
  [404, "NotFound"],
  [405, "MethodNotAllowed"],
  [409, "Conflict"],
  [410, "Gone"],
  [413, "RequestEntityTooLarge"],
  [415, "UnsupportedMediaType"],
  [422, "Invalid"],
  [429, "TooManyRequests"],
]);

const failed: Rule = (error, { what }) => internalError(what, error);

/** A node's own 4xx keeps its status. That a node refuses the fleet's token is no fault of the client. */
const refused: Rule = (error, subject) => {
  const { status = 0, nodeMessage = "" } = error;
  if (status < 400 || status > 499 || status === 401 || status === 403) {
    return failed(error, subject);
  }
  const message = nodeMessage === "" ? "the node refused the request" : nodeMessage;
  if (status === 400) {
    return badRequest(message, error);
  }
  if (status === 409) {
    return conflict(subject.name, message, error);
  }
  const reason = REASONS.get(status) ?? "BadRequest";
  const retryAfterSeconds = status === 429 ? RETRY_CLAIM_S : undefined;
  return new ApiStatusError({ code: status, reason, message, retryAfterSeconds, cause: error });
};

const RULES: Readonly<Record<ScaleErrorCode, Rule>> = {
  no_warm_capacity: (error) => unavailable(error.message, RETRY_CLAIM_S, error),
  routing_disabled: (error) => internalError("this server cannot reach its nodes", error),
  claim_refused: refused,
  claim_failed: failed,
  not_found: (error, { name }) => notFound(name, error),
  node_refused: (error, subject) => (error.status === 404 ? notFound(subject.name, error) : refused(error, subject)),
  node_failed: failed,
  bad_request: (error) => badRequest(error.message, error),
  aborted: (error) => timedOut(error),
};

/** The answer to a failure of the store: one rule for each of its codes. Kube specification §2.10. */
export function scaleStatus(error: ScaleError, name: string): ApiStatusError {
  const what = error.verb === undefined ? "the sandbox's node failed" : `the sandbox's node failed to ${error.verb}`;
  return RULES[error.code](error, { name, what });
}
