import type { IncomingMessage } from "node:http";

import { type FileOperation, fileSignature } from "@org/envd-client";

import { EnvdError } from "../errors.ts";
import type { Guest } from "../guest/guest.ts";
import { sameSecret } from "../guest/state.ts";
import type { GuestUser } from "../guest/users.ts";

/**
 * Admits a request for `/files` by its token or its signature. Nothing is asked while the guest has no token.
 *
 * @throws EnvdError `unauthenticated`
 */
export function checkFileAccess(
  req: IncomingMessage,
  query: URLSearchParams,
  operation: FileOperation,
  accessToken: string | undefined,
  nowMs: number,
): void {
  if (accessToken === undefined) return;
  const presented = req.headers["x-access-token"];
  if (presented !== undefined) {
    if (typeof presented === "string" && sameSecret(presented, accessToken)) return;
    throw new EnvdError("unauthenticated", "access token present in header but does not match");
  }
  const signature = query.get("signature");
  if (signature === null || signature === "") {
    throw new EnvdError("unauthenticated", "missing signature query parameter");
  }
  const expirationText = query.get("signature_expiration");
  // 0 is a moment like any other, only absence means no limit.
  const expiration = expirationText === null || expirationText === "" ? undefined : Number(expirationText);
  if (expirationText !== null && expirationText !== "" && !/^-?\d{1,15}$/.test(expirationText)) {
    throw new EnvdError("unauthenticated", "invalid signature");
  }
  const expected = fileSignature({
    path: query.get("path") ?? "",
    operation,
    username: query.get("username") ?? "",
    accessToken,
    expiration,
  });
  if (!sameSecret(signature, expected)) throw new EnvdError("unauthenticated", "invalid signature");
  if (expiration !== undefined && expiration < Math.floor(nowMs / 1000)) {
    throw new EnvdError("unauthenticated", "signature is already expired");
  }
}

/**
 * The user a request for `/files` acts for.
 *
 * @throws EnvdError `unauthenticated` for an unknown one, `invalid_argument` for none
 */
export function fileUser(guest: Guest, query: URLSearchParams): GuestUser {
  const asked = query.get("username") ?? "";
  const name = asked === "" ? guest.state.defaultUser : asked;
  if (name === "") throw new EnvdError("invalid_argument", "no user named and no default user set");
  const user = guest.users.current().find(name);
  if (user === undefined) throw new EnvdError("unauthenticated", `error looking up user '${name}': unknown user`);
  return user;
}
