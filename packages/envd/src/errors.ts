/** Code of an {@link EnvdError}: the codes of the Connect protocol. */
export type EnvdErrorCode =
  | "canceled"
  | "unknown"
  | "invalid_argument"
  | "deadline_exceeded"
  | "not_found"
  | "already_exists"
  | "permission_denied"
  | "resource_exhausted"
  | "failed_precondition"
  | "aborted"
  | "out_of_range"
  | "unimplemented"
  | "internal"
  | "unavailable"
  | "data_loss"
  | "unauthenticated";

const STATUS: Readonly<Record<EnvdErrorCode, number>> = {
  canceled: 499,
  unknown: 500,
  invalid_argument: 400,
  deadline_exceeded: 504,
  not_found: 404,
  already_exists: 409,
  permission_denied: 403,
  resource_exhausted: 429,
  failed_precondition: 400,
  aborted: 409,
  out_of_range: 400,
  unimplemented: 501,
  internal: 500,
  unavailable: 503,
  data_loss: 500,
  unauthenticated: 401,
};

/** A message that goes with an error: its full name, and its binary form. */
export interface AttachedMessage {
  readonly type: string;
  readonly value: Uint8Array;
}

/** More about an {@link EnvdError}. */
export interface EnvdErrorDetails {
  /** HTTP status when it is not the one that belongs to the code. */
  readonly status?: number | undefined;
  /** Messages that a Connect client gets with the error. */
  readonly attached?: readonly AttachedMessage[] | undefined;
  readonly cause?: unknown;
}

/** The only error this package throws. `message` is fit for the client; `cause` is for the log alone. */
export class EnvdError extends Error {
  override readonly name = "EnvdError";
  readonly code: EnvdErrorCode;
  /** HTTP status of an answer that carries this error. */
  readonly status: number;
  readonly attached: readonly AttachedMessage[];

  constructor(code: EnvdErrorCode, message: string, details: EnvdErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.status = details.status ?? STATUS[code];
    this.attached = details.attached ?? [];
  }
}

/** The `code` of a Node error (`ENOENT`, …), or undefined. */
export function errnoOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}

/** `error` when it is ours, else an `internal` one that shows `what` and the kind of failure, but no internals. */
export function asEnvdError(error: unknown, what: string): EnvdError {
  if (error instanceof EnvdError) return error;
  const errno = errnoOf(error);
  return new EnvdError("internal", errno === undefined ? what : `${what}: ${errno}`, { cause: error });
}
