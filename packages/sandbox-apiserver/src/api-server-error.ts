/**
 * What kept the server from starting.
 * - `listen_failed`: the address cannot be had.
 * - `certificates`: certificates, keys or authorities that cannot be read, made or used.
 * - `authentication_lookup`: the cluster does not tell how its clients authenticate.
 * - `invalid_options`: an option out of range.
 */
export type ApiServerErrorCode = "listen_failed" | "certificates" | "authentication_lookup" | "invalid_options";

/** The error of this package outside of answers. Its message holds no secret. */
export class ApiServerError extends Error {
  override readonly name = "ApiServerError";
  readonly code: ApiServerErrorCode;

  constructor(code: ApiServerErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
