import { createHmac, timingSafeEqual } from "node:crypto";
import { anyText, queryOf } from "../query.ts";
import type { Query } from "../query.ts";
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

/** What the query of an upload says. */
export interface UploadProof {
  readonly ns: string | undefined;
  /** In Unix seconds. */
  readonly expires: string | undefined;
  readonly sig: string | undefined;
}

/** The query of an upload address, as {@link signUpload} makes it. */
export const uploadQuery: Query<UploadProof> = queryOf(
  {
    ns: anyText("The namespace.", { required: true }),
    expires: anyText("Until when the address is good, in Unix seconds.", { required: true }),
    sig: anyText("The signature, in hexadecimal digits.", { required: true }),
  },
  (values) => values,
);

/** Whether the query allows this upload now. Compares in constant time. */
export function mayUpload(
  secret: string,
  key: UploadKey,
  { expires = "", sig = "" }: UploadProof,
  nowSeconds: number,
): boolean {
  if (!/^\d{1,15}$/.test(expires) || !FILES_HASH.test(sig)) {
    return false;
  }
  const right = timingSafeEqual(Buffer.from(sig, "hex"), sign(secret, key, expires));
  return right && Number(expires) >= nowSeconds;
}
