import type { Certificate } from "./certificate.ts";

/** Certificates that are trusted for a purpose. Replaced as a whole when they change, so that it tells what was judged by it. */
export interface TrustBundle {
  readonly authorities: readonly Certificate[];
  /** The same as they were given, for the handshake. */
  readonly pem: string;
}

/** A client's certificate that holds, and when. */
export interface VerifiedChain {
  readonly leaf: Certificate;
  /** Milliseconds since 1970: all of the chain holds from the first to the last. */
  readonly notBefore: number;
  readonly notAfter: number;
}

const CLIENT_AUTH = "1.3.6.1.5.5.7.3.2";
const ANY_PURPOSE = "2.5.29.37.0";
/** SHA-1 and MD5 are left out: certificates can be forged with them. */
const STRONG_SIGNATURES = new Set([
  "1.2.840.113549.1.1.10",
  "1.2.840.113549.1.1.11",
  "1.2.840.113549.1.1.12",
  "1.2.840.113549.1.1.13",
  "1.2.840.10045.4.3.2",
  "1.2.840.10045.4.3.3",
  "1.2.840.10045.4.3.4",
  "1.3.101.112",
]);
/** A client sends what it likes: neither the depth of a search nor the signatures it takes are its to choose. */
const MAX_DEPTH = 8;
const MAX_SIGNATURES = 64;

/**
 * Finds a chain from the first of the `presented` certificates to one of the trusted authorities that is good for
 * authenticating a client at this time. The others that were presented may stand in between, in any order.
 * @param now milliseconds since 1970
 */
export function verifyClientChain(
  presented: readonly Certificate[],
  trust: TrustBundle,
  now: number,
): VerifiedChain | undefined {
  const [leaf, ...others] = presented;
  if (leaf === undefined) {
    return undefined;
  }
  let signatures = 0;

  function isIssuedBy(child: Certificate, parent: Certificate): boolean {
    if (!maySignOthers(parent) || !child.x509.checkIssued(parent.x509)) {
      return false;
    }
    signatures += 1;
    return (
      signatures <= MAX_SIGNATURES &&
      STRONG_SIGNATURES.has(child.signatureAlgorithm) &&
      child.x509.verify(parent.x509.publicKey)
    );
  }

  /** Goes on from the last of a path, whose links are proven. */
  function search(path: readonly Certificate[]): VerifiedChain | undefined {
    const last = path.at(-1);
    if (last === undefined || path.length > MAX_DEPTH) {
      return undefined;
    }
    if (trust.authorities.some(({ fingerprint }) => fingerprint === last.fingerprint)) {
      return judge(path, now);
    }
    for (const authority of trust.authorities) {
      const found = isIssuedBy(last, authority) ? judge([...path, authority], now) : undefined;
      if (found !== undefined) {
        return found;
      }
    }
    for (const other of others) {
      const isNew = !path.some(({ fingerprint }) => fingerprint === other.fingerprint);
      const found = isNew && isIssuedBy(last, other) ? search([...path, other]) : undefined;
      if (found !== undefined) {
        return found;
      }
    }
    return undefined;
  }

  return search([leaf]);
}

function maySignOthers({ isAuthority, maySign }: Certificate): boolean {
  return isAuthority && maySign !== false;
}

/** Whether a path whose signatures are right is good for a client. */
function judge(path: readonly Certificate[], now: number): VerifiedChain | undefined {
  const [leaf] = path;
  const notBefore = Math.max(...path.map((one) => one.notBefore));
  const notAfter = Math.min(...path.map((one) => one.notAfter));
  const isGood =
    leaf !== undefined &&
    // Not a number compares as false.
    now >= notBefore &&
    now <= notAfter &&
    path.every(isForClients) &&
    path.every(({ isBeyondUs }) => !isBeyondUs) &&
    path.every(({ pathLength }, place) => pathLength === undefined || place === 0 || place - 1 <= pathLength) &&
    // Constraints are on names that a certificate of a client hardly has; they are not worked out here.
    !(leaf.hasAlternativeNames && path.some(({ hasNameConstraints }) => hasNameConstraints));
  return isGood ? { leaf, notBefore, notAfter } : undefined;
}

function isForClients({ purposes }: Certificate): boolean {
  return purposes === undefined || purposes.includes(CLIENT_AUTH) || purposes.includes(ANY_PURPOSE);
}
