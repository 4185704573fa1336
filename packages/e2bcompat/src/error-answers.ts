import { isScaleError } from "@org/scale";
import type { ScaleError, ScaleErrorCode } from "@org/scale";
import { failure } from "./answer.ts";
import type { Answer } from "./answer.ts";
import { E2bError } from "./errors.ts";
import type { E2bErrorCode } from "./errors.ts";

/** How loud the log is about a failed request. `undefined` leaves it to the access line. */
type Loudness = "debug" | "warn" | "error" | undefined;

/** A failed request's answer and what the log is told. */
export interface Failure {
  readonly answer: Answer;
  readonly loudness: Loudness;
}

/** The status that logs carry for a client that hung up. Nobody receives it. */
export const CLIENT_GONE = 499;

const RETRY_LATER: Readonly<Record<string, string>> = { "retry-after": "1" };

/** A build takes longer than a claim. Clients try three times more. */
const RETRY_BUILD: Readonly<Record<string, string>> = { "retry-after": "10" };

type Rule<T> = (error: T) => Failure;

function own(status: number, loudness?: Loudness, headers?: Readonly<Record<string, string>>): Rule<E2bError> {
  return (error) => ({ answer: failure(status, error.message, error.headers ?? headers), loudness });
}

/** A set-up error inside a request is a fault of ours. */
const internal: Rule<E2bError> = () => ({ answer: failure(500, "internal error"), loudness: "error" });

const OWN: Readonly<Record<E2bErrorCode, Rule<E2bError>>> = {
  bad_request: own(400),
  unauthorized: own(401),
  not_found: own(404),
  method_not_allowed: own(405),
  conflict: own(409),
  too_large: own(413),
  busy: own(429, undefined, RETRY_BUILD),
  limited: own(429, undefined, RETRY_LATER),
  unavailable: own(503, "warn", RETRY_LATER),
  unsupported: own(501),
  guest_failed: own(500, "warn"),
  internal: own(500, "error"),
  invalid_options: internal,
  invalid_flag: internal,
  file_unreadable: internal,
  invalid_file: internal,
  listen_failed: internal,
};

/** A node that refuses the fleet's token is an operator's problem; the user's key is fine. */
function refusedFleetToken(error: ScaleError): boolean {
  return error.status === 401 || error.status === 403;
}

function nodeReason(error: ScaleError, fallback: string): string {
  return error.nodeMessage === undefined || error.nodeMessage === "" ? fallback : error.nodeMessage;
}

const nodeFailure: Rule<ScaleError> = (error) => ({
  answer: failure(500, "the node that owns this sandbox failed"),
  loudness: refusedFleetToken(error) ? "error" : "warn",
});

const claimFailure: Rule<ScaleError> = (error) => ({
  answer: failure(500, "the sandbox could not be created"),
  loudness: refusedFleetToken(error) ? "error" : "warn",
});

const SCALE: Readonly<Record<ScaleErrorCode, Rule<ScaleError>>> = {
  no_warm_capacity: () => ({
    answer: failure(503, "no warm sandbox is available, retry later", RETRY_LATER),
    loudness: "warn",
  }),
  routing_disabled: () => ({ answer: failure(500, "this deployment cannot reach its nodes"), loudness: "error" }),
  claim_refused: (error) =>
    error.status === 400 || error.status === 409
      ? { answer: failure(error.status, nodeReason(error, "the node refused the request")), loudness: undefined }
      : claimFailure(error),
  claim_failed: claimFailure,
  // A 404 tells clients that the sandbox is gone: only said when no node was left that may hold it.
  not_found: (error) =>
    error.unanswered > 0
      ? {
          answer: failure(503, "the sandbox was not found, but not every node answered: retry later", RETRY_LATER),
          loudness: "warn",
        }
      : { answer: failure(404, "sandbox not found"), loudness: undefined },
  node_refused: (error) => {
    const { status } = error;
    if (status === undefined || status < 400 || status > 499 || refusedFleetToken(error)) {
      return nodeFailure(error);
    }
    const fallback = status === 404 ? "sandbox not found" : "the node refused the request";
    // A node that takes no more has done nothing, and clients try again by themselves when they are told when.
    const headers = status === 429 ? RETRY_LATER : undefined;
    return { answer: failure(status, nodeReason(error, fallback), headers), loudness: undefined };
  },
  node_failed: nodeFailure,
  bad_request: (error) => ({ answer: failure(400, error.message), loudness: undefined }),
  aborted: () => ({ answer: failure(CLIENT_GONE, "the client closed the request"), loudness: "debug" }),
};

/** The answer to everything that a handler can throw. */
export function failureFor(error: unknown): Failure {
  if (error instanceof E2bError) {
    return OWN[error.code](error);
  }
  if (isScaleError(error)) {
    return SCALE[error.code](error);
  }
  return { answer: failure(500, "internal error"), loudness: "error" };
}
