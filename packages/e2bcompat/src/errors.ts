/**
 * Why a server could not be set up.
 * - `invalid_options`: a programmer's or operator's option is missing or contradictory.
 * - `invalid_flag`: a flag's value cannot be read.
 * - `file_unreadable`: a key, alias or secret file cannot be read.
 * - `invalid_file`: a line of such a file is malformed.
 * - `listen_failed`: the address cannot be listened on.
 */
export type SetupErrorCode = "invalid_options" | "invalid_flag" | "file_unreadable" | "invalid_file" | "listen_failed";

/**
 * Why a request was refused.
 * - `bad_request`: malformed, or asks for something that this deployment does not do.
 * - `unauthorized`: no key, or a wrong one.
 * - `not_found`: no such route, sandbox or template for this key.
 * - `method_not_allowed`: a known path with another method.
 * - `conflict`: the sandbox is in the wrong state.
 * - `too_large`: an upload is over its limit.
 * - `busy`: too much runs already; retryable.
 * - `limited`: a limit of the API key is reached; retryable.
 * - `unavailable`: nothing is warm right now; retryable.
 * - `unsupported`: part of the API that this deployment does not serve.
 * - `guest_failed`: the guest could not be prepared.
 * - `internal`: none of the client's doing.
 */
export type RequestErrorCode =
  | "bad_request"
  | "unauthorized"
  | "not_found"
  | "method_not_allowed"
  | "conflict"
  | "too_large"
  | "busy"
  | "limited"
  | "unavailable"
  | "unsupported"
  | "guest_failed"
  | "internal";

/** Codes of {@link E2bError}. */
export type E2bErrorCode = SetupErrorCode | RequestErrorCode;

/** The only error this package throws. `message` is fit to show to a client or an operator, `cause` is for the log. */
export class E2bError extends Error {
  override readonly name = "E2bError";
  readonly code: E2bErrorCode;
  /** Of the answer that tells a client of it. */
  readonly headers: Readonly<Record<string, string>> | undefined;

  constructor(
    code: E2bErrorCode,
    message: string,
    options: { readonly cause?: unknown; readonly headers?: Readonly<Record<string, string>> | undefined } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.headers = options.headers;
  }
}
