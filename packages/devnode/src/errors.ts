/**
 * What went wrong:
 *
 * - `invalid_option`: an option is out of range or contradicts another one.
 * - `listen_failed`: the address cannot be bound; `cause` has the system's code.
 * - `no_isolation`: the isolation asked for does not work on this machine; the message says what was tried.
 * - `guest_start_failed`: a guest did not come up.
 * - `guest_unreachable`: a guest does not answer, or nothing listens on the port.
 * - `guest_gone`: the guest ended.
 * - `state_folder`: the state folder cannot be used.
 */
export type DevNodeErrorCode =
  | "invalid_option"
  | "listen_failed"
  | "no_isolation"
  | "guest_start_failed"
  | "guest_unreachable"
  | "guest_gone"
  | "state_folder";

/** The one error of this package. The message is fit to show, `cause` is for the log. */
export class DevNodeError extends Error {
  override readonly name = "DevNodeError";
  readonly code: DevNodeErrorCode;

  constructor(code: DevNodeErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** True for a {@link DevNodeError}, of the given code when one is named. */
export function isDevNodeError(error: unknown, code?: DevNodeErrorCode): error is DevNodeError {
  return error instanceof DevNodeError && (code === undefined || error.code === code);
}
