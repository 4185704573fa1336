/**
 * What went wrong.
 * - `unreachable`: no connection (refused, no route, name look-up, connect timeout, TLS failure, closed pool).
 * - `status`: the node answered with an error status.
 * - `timeout`: the request did not end within its bound.
 * - `connection_lost`: the connection broke after the request was started.
 * - `bad_reply`: the reply is over its cap or not what the route answers.
 * - `aborted`: the caller's signal ended the call; `cause` is its reason.
 * - `bad_request`: an address, id, token or port that can never be sent.
 * - `token_file`: the token file cannot be read.
 * - `ca_file`: the file of certificates cannot be read.
 */
export type SandboxdErrorCode =
  | "unreachable"
  | "status"
  | "timeout"
  | "connection_lost"
  | "bad_reply"
  | "aborted"
  | "bad_request"
  | "token_file"
  | "ca_file";

/** Whether the request can have reached the node: `no` only when not one byte of it was handed to a connection. */
export type Delivery = "no" | "maybe";

/** What is known about a failure. */
export interface SandboxdErrorDetails {
  readonly delivery: Delivery;
  readonly status?: number | undefined;
  readonly nodeMessage?: string | undefined;
  readonly routeMissing?: boolean | undefined;
  readonly cause?: unknown;
}

/** The only error this package throws. Its message names the call and the node and never a token. */
export class SandboxdError extends Error {
  override readonly name = "SandboxdError";
  readonly code: SandboxdErrorCode;
  readonly delivery: Delivery;
  /** HTTP status of the node's answer, when there was one. */
  readonly status: number | undefined;
  /** The node's own words: the `error` of its JSON body, else its text. Cut at 1024 characters. */
  readonly nodeMessage: string | undefined;
  /** A 404 or 405 without a JSON body: the router's answer, so the node is too old for the route. Node API §3, §14. */
  readonly routeMissing: boolean;

  constructor(code: SandboxdErrorCode, message: string, details: SandboxdErrorDetails) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.delivery = details.delivery;
    this.status = details.status;
    this.nodeMessage = details.nodeMessage;
    this.routeMissing = details.routeMissing ?? false;
  }
}

/** The most that is kept of a node's words, which end up in logs and answers, and what a message shows of them. */
const wordsCap = 1024;
const lineCap = 200;

/** The text of an unknown error, on one line, for a message. */
export function errorText(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) {
    return error.errors.map(errorText).join("; ");
  }
  if (!(error instanceof Error)) {
    return String(error);
  }
  return error.message === "" ? error.name : error.message;
}

/** The error for a reply with an error status. `body` may be cut. Node API §3. */
export function statusError(label: string, status: number, body: Buffer): SandboxdError {
  const text = body.toString("utf8");
  const fromJson = jsonErrorMessage(text);
  const nodeMessage = fromJson ?? (cut(text.trim(), wordsCap) || undefined);
  const routeMissing = (status === 404 || status === 405) && fromJson === undefined;
  const shown = routeMissing ? ", the node is too old for this route" : nodeMessage && ` ${oneLine(nodeMessage)}`;
  return new SandboxdError("status", `${label}: ${status}${shown ?? ""}`, {
    delivery: "maybe",
    status,
    nodeMessage,
    routeMissing,
  });
}

/** The error for a good status that the route never answers with: what was asked for need not have happened. */
export function unexpectedStatus(label: string, status: number, body: Buffer): SandboxdError {
  return new SandboxdError("bad_reply", `${label}: unexpected status ${status}`, {
    delivery: "maybe",
    status,
    nodeMessage: jsonErrorMessage(body.toString("utf8")),
  });
}

function jsonErrorMessage(text: string): string | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && "error" in value && typeof value.error === "string"
      ? cut(value.error, wordsCap)
      : undefined;
  } catch {
    return undefined;
  }
}

function oneLine(text: string): string {
  return cut(text.replace(/[\s\p{Cc}]+/gu, " "), lineCap);
}

function cut(text: string, cap: number): string {
  return text.length > cap ? `${text.slice(0, cap).toWellFormed()}…` : text;
}
