import { createHmac, timingSafeEqual } from "node:crypto";
import { FILES_HASH } from "./build-steps.ts";
import type { UploadKey } from "./upload-key.ts";

/** How long an upload address is good for, in seconds. */
export const UPLOAD_SECONDS = 3600;

function sign(secret: string, { namespace, template, hash }: UploadKey, expires: string): Buffer {
  const text = ["e2b-upload", namespace, template, hash, expires].join("\0");
  return createHmac("sha256", secret).update(text).digest();
}

/** The query that lets somebody without a key upload this archive until `expires`, in Unix seconds. */
export function signUpload(secret: string, key: UploadKey, expires: number): URLSearchParams {
  const sig = sign(secret, key, String(expires)).toString("hex");
  return new URLSearchParams({ ns: key.namespace, expires: String(expires), sig });
}

/** Whether the query allows this upload now. Compares in constant time. */
export function mayUpload(secret: string, key: UploadKey, query: URLSearchParams, nowSeconds: number): boolean {
  const expires = query.get("expires") ?? "";
  const sig = query.get("sig") ?? "";
  if (!/^\d{1,15}$/.test(expires) || !FILES_HASH.test(sig)) {
    return false;
  }
  const right = timingSafeEqual(Buffer.from(sig, "hex"), sign(secret, key, expires));
  return right && Number(expires) >= nowSeconds;
}
