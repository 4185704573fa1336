import { X509Certificate } from "node:crypto";
import { ApiServerError } from "../api-server-error.ts";
import { readCertificate, type Certificate } from "./certificate.ts";
import type { TrustBundle } from "./verify-chain.ts";

const PEM = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

/**
 * Reads authorities in PEM. Text around them is passed over, and so is what is no certificate.
 * @param what names them in errors
 * @throws ApiServerError `certificates` when there is none, or one that cannot be read.
 */
export function readTrustBundle(what: string, pem: string): TrustBundle {
  const blocks = pem.match(PEM) ?? [];
  if (blocks.length === 0) {
    throw new ApiServerError("certificates", `${what}: no certificate in it`);
  }
  const authorities: Certificate[] = [];
  for (const [index, block] of blocks.entries()) {
    try {
      authorities.push(readCertificate(new X509Certificate(block)));
    } catch (cause) {
      throw new ApiServerError("certificates", `${what}: certificate ${index + 1} cannot be read`, { cause });
    }
  }
  return { authorities, pem: `${blocks.join("\n")}\n` };
}
