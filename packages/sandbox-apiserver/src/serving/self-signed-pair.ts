import { randomUUID, X509Certificate, createPrivateKey } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { isIP } from "node:net";
import { join } from "node:path";
import { createSelfSigned } from "@org/certificates";
import { ApiServerError } from "../api-server-error.ts";

/** Where a certificate chain and its key lie. */
export interface CertificateFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

const DAY_MS = 86_400_000;
const VALID_DAYS = 365;
/** A pair that ends sooner is replaced at the start. */
const LEFT_DAYS = 30;

/**
 * The pair `apiserver.crt` and `apiserver.key` of a folder. One that is missing, is about to end or cannot be used is made:
 * it vouches for itself, for `localhost` and for the address that is served.
 * @throws ApiServerError `certificates` when it cannot be written.
 */
export async function selfSignedPair(
  folder: string,
  address: string,
  clock: () => number,
): Promise<CertificateFiles & { readonly isNew: boolean }> {
  const files = { certFile: join(folder, "apiserver.crt"), keyFile: join(folder, "apiserver.key") };
  if (await isUsable(files, clock())) {
    return { ...files, isNew: false };
  }
  const addresses = new Set(["127.0.0.1", "::1"]);
  if (isIP(address) !== 0 && address !== "0.0.0.0" && address !== "::") {
    addresses.add(address);
  }
  // Clocks of clients may be behind.
  const validity = { from: new Date(clock() - 3_600_000), to: new Date(clock() + VALID_DAYS * DAY_MS) };
  const names = { dns: ["localhost"], addresses: [...addresses] };
  const { cert, key } = createSelfSigned("localhost", names, validity);
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await replace(files.keyFile, key, 0o600);
    await replace(files.certFile, cert, 0o644);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ApiServerError(
      "certificates",
      `write a self-signed certificate to ${JSON.stringify(folder)}: ${reason}`,
      { cause },
    );
  }
  return { ...files, isNew: true };
}

async function isUsable({ certFile, keyFile }: CertificateFiles, now: number): Promise<boolean> {
  try {
    const [cert, key] = await Promise.all([readFile(certFile), readFile(keyFile)]);
    const x509 = new X509Certificate(cert);
    return (
      x509.validFromDate.getTime() <= now &&
      x509.validToDate.getTime() - LEFT_DAYS * DAY_MS > now &&
      x509.checkPrivateKey(createPrivateKey(key))
    );
  } catch {
    return false;
  }
}

/** Nobody reads a half of it, and nobody else reads a key. */
async function replace(file: string, content: string, mode: number): Promise<void> {
  const draft = `${file}.${randomUUID()}`;
  try {
    await writeFile(draft, content, { mode, flag: "wx" });
    await rename(draft, file);
  } finally {
    await rm(draft, { force: true });
  }
}
