/**
 * What went wrong with a call to the daemon.
 * - `unreachable`: no connection, or it broke before the answer was complete.
 * - `timeout`: no complete answer within the time allowed.
 * - `aborted`: the caller's signal ended the call.
 * - `refused`: the daemon answered with another status than asked for; see `status`.
 * - `malformed`: the answer is not what a daemon says to this call.
 */
export type EnvdClientErrorCode = "unreachable" | "timeout" | "aborted" | "refused" | "malformed";

/** More about an {@link EnvdClientError}. */
export interface EnvdClientErrorDetails {
  /** HTTP status of the daemon's answer, when there was one. */
  readonly status?: number | undefined;
  /** The daemon's own words, cut to a few hundred characters. */
  readonly guestMessage?: string | undefined;
  readonly cause?: unknown;
}

/** The only error this package throws. Neither message nor fields hold tokens or environment values. */
export class EnvdClientError extends Error {
  override readonly name = "EnvdClientError";
  readonly code: EnvdClientErrorCode;
  readonly status: number | undefined;
  readonly guestMessage: string | undefined;

  constructor(code: EnvdClientErrorCode, message: string, details: EnvdClientErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.status = details.status;
    this.guestMessage = details.guestMessage;
  }
}
