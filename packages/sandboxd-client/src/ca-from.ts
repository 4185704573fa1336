import { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { errorText, SandboxdError } from "./errors.ts";

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g;

/**
 * The PEM certificates that `https://` nodes are verified against, out of a file; `undefined` without a file name, which
 * leaves the choice to the system.
 * @throws SandboxdError `ca_file` when the file cannot be read, has no certificate, or has one that cannot be read
 */
export async function caFrom(file: string | undefined): Promise<string | undefined> {
  if (file === undefined || file === "") {
    return undefined;
  }
  const failed = (why: string, cause?: unknown): SandboxdError =>
    new SandboxdError("ca_file", `sandboxd: CA file ${JSON.stringify(file)}${why}`, { delivery: "no", cause });
  let pem: string;
  try {
    pem = await readFile(file, "latin1");
  } catch (error) {
    throw failed(`: ${errorText(error)}`, error);
  }
  const certificates = pem.match(CERTIFICATE) ?? [];
  if (certificates.length === 0) {
    throw failed(" has no PEM certificate");
  }
  for (const [at, certificate] of certificates.entries()) {
    try {
      void new X509Certificate(certificate);
    } catch (error) {
      throw failed(`: certificate ${at + 1} cannot be read`, error);
    }
  }
  return certificates.join("\n");
}
