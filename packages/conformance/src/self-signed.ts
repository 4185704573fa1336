import { createSelfSigned, type IssuedCertificate } from "@org/certificates";

const DAY_MS = 86_400_000;

/** A fresh key and a certificate for `localhost`, `127.0.0.1`, `::1` and other names, signed by itself. For tests. */
export function selfSigned(names: readonly string[] = []): IssuedCertificate {
  const now = Date.now();
  return createSelfSigned(
    "localhost",
    { dns: ["localhost", ...names], addresses: ["127.0.0.1", "::1"] },
    { from: new Date(now - DAY_MS), to: new Date(now + 365 * DAY_MS) },
  );
}
