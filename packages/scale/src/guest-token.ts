import { createHash, createHmac, timingSafeEqual } from "node:crypto";

/**
 * The access token that clients present for a sandbox: `hex(HMAC-SHA256(secret, claimToken))`. Without a secret the
 * claim token itself is the access token.
 */
export function guestAccessToken(claimToken: string, secret: string | undefined): string {
  return secret === undefined ? claimToken : createHmac("sha256", secret).update(claimToken).digest("hex");
}

/** Compares two secrets in constant time, whatever their lengths. */
export function sameSecret(a: string, b: string): boolean {
  return timingSafeEqual(createHash("sha256").update(a).digest(), createHash("sha256").update(b).digest());
}
