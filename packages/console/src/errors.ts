/**
 * What went wrong.
 * - `invalid_options`: a credential that could be guessed.
 * - `invalid_flag`: a flag that cannot be read.
 * - `credential_file`: no file is named, it cannot be read, or what it holds could be guessed.
 * - `listen_failed`: the address cannot be listened on.
 */
export type ConsoleErrorCode = "invalid_options" | "invalid_flag" | "credential_file" | "listen_failed";

/** The only error this package throws. */
export class ConsoleError extends Error {
  override readonly name = "ConsoleError";
  readonly code: ConsoleErrorCode;

  constructor(code: ConsoleErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
