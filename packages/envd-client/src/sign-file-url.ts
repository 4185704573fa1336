import { createHash } from "node:crypto";

/** What a signed address allows: `read` is GET, `write` is POST. */
export type FileOperation = "read" | "write";

/** What {@link fileSignature} signs. */
export interface FileSignatureInput {
  /** The path exactly as in the query. */
  readonly path: string;
  readonly operation: FileOperation;
  /** The user exactly as in the query; absent for the daemon's default user. */
  readonly username?: string | undefined;
  /** The guest's access token. It never leaves this function. */
  readonly accessToken: string;
  /** Unix seconds; absent means no limit. 0 is a moment in the past, not "never". */
  readonly expiration?: number | undefined;
}

/** Signature of a file address: `v1_` and the unpadded base64 SHA-256 of its parts and the token. */
export function fileSignature(input: FileSignatureInput): string {
  const parts = [input.path, input.operation, input.username ?? "", input.accessToken];
  if (input.expiration !== undefined) parts.push(String(input.expiration));
  return `v1_${createHash("sha256").update(parts.join(":")).digest("base64").replace(/=+$/, "")}`;
}

/** What {@link signFileUrl} puts into an address. */
export interface SignFileUrlInput extends FileSignatureInput {
  /** Address under which the daemon is reached, for example `https://49983-<id>.<domain>`. */
  readonly baseUrl: string;
}

/**
 * Address of a file that needs no access token.
 *
 * @throws TypeError when `baseUrl` is no URL
 */
export function signFileUrl(input: SignFileUrlInput): string {
  const url = new URL("/files", input.baseUrl);
  url.searchParams.set("path", input.path);
  if (input.username !== undefined) url.searchParams.set("username", input.username);
  url.searchParams.set("signature", fileSignature(input));
  if (input.expiration !== undefined) url.searchParams.set("signature_expiration", String(input.expiration));
  return url.href;
}
