import { createPrivateKey, X509Certificate } from "node:crypto";
import { type Finding, findingsOf } from "./finding.ts";

const DAY_MS = 86_400_000;
/** Enough for someone to renew it by hand. */
const SOON_DAYS = 14;

/** The data plane's certificate and key, in PEM. The key is a secret. */
export interface CertificatePair {
  readonly cert: string;
  readonly key: string;
}

/** Whether the certificate is for the hosts of sandboxes, holds now, and fits its key. */
export function certificateFindings({ cert, key }: CertificatePair, domain: string, now: Date): Finding[] {
  const { ok, fault, warning } = findingsOf("certificate");
  const host = domain.replace(/:\d+$/, "").replace(/\.$/, "");
  let leaf: X509Certificate;
  try {
    leaf = new X509Certificate(cert);
  } catch {
    return [fault("the certificate file holds no certificate", "give a PEM file with --envd-proxy-tls-cert-file")];
  }
  const found: Finding[] = [];
  try {
    if (!leaf.checkPrivateKey(createPrivateKey(key))) {
      found.push(fault("the key is that of another certificate", "give the key that was made for this certificate"));
    }
  } catch {
    found.push(fault("the key file holds no key that can be read", "give an unencrypted PEM key"));
  }
  if (leaf.checkHost(`49983-sb-0123456789abcdef.${host}`) === undefined) {
    found.push(
      fault(
        `the certificate does not cover *.${host}: it is for ${leaf.subjectAltName ?? leaf.subject}`,
        `get one for *.${host}: a wildcard covers one level, so that of a parent domain is not enough`,
      ),
    );
  }
  const left = Math.floor((leaf.validToDate.getTime() - now.getTime()) / DAY_MS);
  if (leaf.validFromDate > now) {
    found.push(
      fault(`the certificate holds from ${leaf.validFrom} on only`, "check this machine's clock, or get another one"),
    );
  } else if (left < 0) {
    found.push(
      fault(`the certificate ended on ${leaf.validTo}`, "renew it: a changed file is taken up without a restart"),
    );
  } else if (left < SOON_DAYS) {
    found.push(
      warning(`the certificate ends in ${left} days`, "renew it: a changed file is taken up without a restart"),
    );
  }
  if (leaf.issuer === leaf.subject) {
    found.push(
      warning(
        "the certificate vouches for itself",
        "clients must be told to trust it: NODE_EXTRA_CA_CERTS, SSL_CERT_FILE",
      ),
    );
  }
  return found.length > 0 ? found : [ok(`the certificate covers *.${host} for ${left} more days`)];
}
