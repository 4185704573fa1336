/**
 * Why the mesh inventory could not start.
 * - `no-seeds`: no seed was given.
 * - `bad-seed`: a seed is no address, or the token fits into no request: dialing again would not help.
 * - `unauthorized`: a seed refused the token (401, or 403 for a tenant's token).
 * - `no-advertise-addr`: a seed does not say where clients reach it, so it has no key.
 * - `no-seed-answered`: none answered in time.
 */
export type MeshStartCode = "no-seeds" | "bad-seed" | "unauthorized" | "no-advertise-addr" | "no-seed-answered";

/** A failed start. Nothing is left running after it. */
export class MeshStartError extends Error {
  override readonly name = "MeshStartError";
  readonly code: MeshStartCode;
  /** The seed at fault, as it was given. */
  readonly seed: string | undefined;

  constructor(
    code: MeshStartCode,
    message: string,
    details: { readonly seed?: string; readonly cause?: unknown } = {},
  ) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.seed = details.seed;
  }
}

/** A member that answered without an address for clients. It cannot be listed: the address is its key. */
export class NoAdvertiseAddressError extends Error {
  override readonly name = "NoAdvertiseAddressError";
}

/** The words of whatever was thrown. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
