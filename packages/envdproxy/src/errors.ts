/**
 * Why the proxy could not be set up.
 * - `invalid_options`: a programmer's option is missing or contradictory.
 * - `invalid_flag`: a flag's value cannot be read.
 * - `tls_files`: the certificate or its key is missing, unreadable, or they do not belong together.
 * - `secret_file`: the file of the key of derived access tokens is unreadable or blank.
 * - `listen_failed`: the address cannot be listened on.
 */
export type SetupErrorCode = "invalid_options" | "invalid_flag" | "tls_files" | "secret_file" | "listen_failed";

/**
 * Why a request was refused.
 * - `malformed_request`, `connect_refused`, `bad_expectation`, `bad_encoding`, `head_timeout`, `head_too_large`: HTTP
 *   that is not served.
 * - `no_sandbox`: neither host nor headers name a sandbox and a port. `bad_port`: the node refused the port.
 * - `missing_token`, `invalid_token`: the credential.
 * - `internal_path`: a path of the guest daemon that only the control plane may call.
 * - `too_many_relays`, `too_many_streams`: a limit of open relays is reached; the second for calls that clients would
 *   otherwise take for a missing sandbox.
 * - `sandbox_gone`: no such sandbox. `paused`: it sleeps and this request must not wake it. `port_closed`: nothing
 *   listens there. `guest_failed`: the guest closed before its answer, or its answer is no HTTP.
 * - `not_ready`: asked for its readiness, the proxy knows no node or drains.
 * - `node_failed`: the node did not answer or failed. `internal`: a fault of the proxy itself.
 */
export type RequestErrorCode =
  | "malformed_request"
  | "connect_refused"
  | "no_sandbox"
  | "bad_port"
  | "missing_token"
  | "invalid_token"
  | "internal_path"
  | "head_timeout"
  | "bad_expectation"
  | "head_too_large"
  | "bad_encoding"
  | "too_many_relays"
  | "too_many_streams"
  | "sandbox_gone"
  | "port_closed"
  | "guest_failed"
  | "paused"
  | "node_failed"
  | "not_ready"
  | "internal";

/** How a refused request is answered. Messages are fixed: they never name a node, an id or a token. */
interface Answer {
  readonly status: number;
  readonly message: string;
}

const ANSWERS: Readonly<Record<RequestErrorCode, Answer>> = {
  malformed_request: { status: 400, message: "malformed request" },
  connect_refused: { status: 400, message: "CONNECT is not supported" },
  no_sandbox: { status: 400, message: "no sandbox in the request host or headers" },
  bad_port: { status: 400, message: "unsupported sandbox port" },
  missing_token: { status: 401, message: "missing X-Access-Token" },
  invalid_token: { status: 401, message: "invalid sandbox access token" },
  internal_path: { status: 404, message: "not found" },
  head_timeout: { status: 408, message: "the request head took too long" },
  bad_expectation: { status: 417, message: "only 100-continue can be expected" },
  head_too_large: { status: 431, message: "request headers are too large" },
  too_many_relays: { status: 429, message: "too many open connections" },
  // On a streaming call clients take 429 for a missing sandbox.
  too_many_streams: { status: 500, message: "too many open connections" },
  bad_encoding: { status: 501, message: "only the chunked transfer encoding is supported" },
  // These two are E2B's own words: newer clients tell them apart by them.
  sandbox_gone: { status: 502, message: "The sandbox was not found" },
  port_closed: { status: 502, message: "The sandbox is running but port is not open" },
  guest_failed: { status: 502, message: "sandbox unreachable" },
  paused: { status: 502, message: "sandbox is paused" },
  // 502 and 503 make clients report a missing sandbox, so trouble with a node has to be a 500.
  node_failed: { status: 500, message: "sandbox unreachable" },
  not_ready: { status: 503, message: "not ready" },
  internal: { status: 500, message: "internal error" },
};

/** Codes of {@link EnvdProxyError}. */
export type EnvdProxyErrorCode = SetupErrorCode | RequestErrorCode;

/** The only error this package throws. `message` is fit to show, `cause` is for the log. */
export class EnvdProxyError extends Error {
  override readonly name = "EnvdProxyError";
  readonly code: EnvdProxyErrorCode;

  constructor(code: EnvdProxyErrorCode, message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}

/** A request's refusal. */
export function refusal(code: RequestErrorCode, cause?: unknown): EnvdProxyError {
  return new EnvdProxyError(code, ANSWERS[code].message, cause === undefined ? undefined : { cause });
}

/** The code under which `error` is answered; anything unforeseen is `internal`. */
export function requestErrorCode(error: unknown): RequestErrorCode {
  return error instanceof EnvdProxyError && error.code in ANSWERS ? (error.code as RequestErrorCode) : "internal";
}

/** Status and JSON body of a refusal: `{"code":<status>,"message":"…"}` and a newline. Never empty. */
export function errorAnswer(code: RequestErrorCode): { readonly status: number; readonly body: string } {
  const { status, message } = ANSWERS[code];
  return { status, body: `${JSON.stringify({ code: status, message })}\n` };
}
