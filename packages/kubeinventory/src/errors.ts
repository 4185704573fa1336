/**
 * What went wrong.
 * - `config`: the configuration of the cluster cannot be found, read or used.
 * - `credentials`: a token file, certificate or plugin gave nothing to authenticate with.
 * - `unreachable`: no connection (refused, no route, name look-up, connect timeout, TLS failure, closed client).
 * - `timeout`: the server was silent for too long.
 * - `connection_lost`: the connection broke after the request was started.
 * - `status`: the server answered with an error status, or sent one inside of a watch.
 * - `bad_reply`: the reply is not what the API answers.
 * - `bad_object`: an object has members that Kubernetes does not allow.
 * - `not_synced`: the first list did not arrive in time.
 * - `aborted`: the caller's signal ended the call; `cause` is its reason.
 */
export type KubeErrorCode =
  | "config"
  | "credentials"
  | "unreachable"
  | "timeout"
  | "connection_lost"
  | "status"
  | "bad_reply"
  | "bad_object"
  | "not_synced"
  | "aborted";

/** What is known about a failure. */
export interface KubeErrorDetails {
  readonly status?: number | undefined;
  readonly reason?: string | undefined;
  readonly statusCauses?: readonly string[] | undefined;
  readonly retryAfterMs?: number | undefined;
  readonly cause?: unknown;
}

/** The only error this package throws, beside a `TypeError` for options out of range. Its message holds no secret. */
export class KubeError extends Error {
  override readonly name = "KubeError";
  readonly code: KubeErrorCode;
  /** HTTP status of the answer, or the `code` of the Status that a watch sent. */
  readonly status: number | undefined;
  /** The `reason` of the server's Status, such as `Expired` or `Forbidden`. */
  readonly reason: string | undefined;
  /** The reasons of the Status' causes, such as `ResourceVersionTooLarge`. */
  readonly statusCauses: readonly string[];
  /** How long the server asks to be left alone, in milliseconds. */
  readonly retryAfterMs: number | undefined;

  constructor(code: KubeErrorCode, message: string, details: KubeErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.status = details.status;
    this.reason = details.reason;
    this.statusCauses = details.statusCauses ?? [];
    this.retryAfterMs = details.retryAfterMs;
  }
}

/** The most that a message shows of a server's or plugin's own words. */
const WORDS_CAP = 300;

/** Foreign words on one line, cut. */
export function oneLine(text: string): string {
  const line = text.replace(/[\s\p{Cc}]+/gu, " ").trim();
  return line.length > WORDS_CAP ? `${line.slice(0, WORDS_CAP).toWellFormed()}…` : line;
}

/** The words of whatever was thrown, on one line. */
export function errorText(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) {
    return error.errors.map(errorText).join("; ");
  }
  if (!(error instanceof Error)) {
    return oneLine(String(error));
  }
  return oneLine(error.message === "" ? error.name : error.message);
}

/**
 * The error for a Status object, or for whatever else came with an error status. `subject` names the call.
 * @param fallback the status when the object names none
 */
export function statusError(subject: string, status: unknown, fallback: number, retryAfterMs?: number): KubeError {
  const fields = record(status);
  const details = record(fields["details"]);
  const code = typeof fields["code"] === "number" ? fields["code"] : fallback;
  const reason = typeof fields["reason"] === "string" && fields["reason"] !== "" ? fields["reason"] : undefined;
  const words = typeof fields["message"] === "string" ? oneLine(fields["message"]) : "";
  const seconds = details["retryAfterSeconds"];
  const asked = typeof seconds === "number" && seconds > 0 ? seconds * 1000 : undefined;
  const causes = Array.isArray(details["causes"]) ? details["causes"] : [];
  return new KubeError("status", [`${subject}: ${code}`, reason, words].filter(Boolean).join(" "), {
    status: code,
    reason,
    statusCauses: causes.map((cause) => record(cause)["reason"]).filter((one) => typeof one === "string"),
    retryAfterMs: retryAfterMs ?? asked,
  });
}

/** The members of an object; none for anything else. */
export function record(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>)
    : {};
}
