import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, randomBytes, sign } from "node:crypto";
import type { KeyObject } from "node:crypto";
import ipaddr from "ipaddr.js";
import { bitString, boolean, context, explicit, integer, octetString, oid, sequence, set, time, utf8 } from "./der.ts";

/** Names that a certificate is for, or that an authority may vouch for. */
export interface CertificateNames {
  readonly dns: readonly string[];
  /** IP addresses, as text. An authority may vouch for the whole 127.0.0.0/8 with any of it, else for these alone. */
  readonly addresses: readonly string[];
}

/** Times within which a certificate holds. */
export interface Validity {
  readonly from: Date;
  readonly to: Date;
}

/** A certificate with its key, in PEM. The key is a secret. */
export interface IssuedCertificate {
  readonly cert: string;
  readonly key: string;
}

const ECDSA_WITH_SHA256 = sequence(oid("1.2.840.10045.4.3.2"));
const SERVER_AUTH = oid("1.3.6.1.5.5.7.3.1");
/** Bits of the key usage extension, from the left. */
const DIGITAL_SIGNATURE = bitString(Buffer.from([0x80]), 7);
const SIGN_CERTIFICATES = bitString(Buffer.from([0x04]), 2);

/**
 * An authority that can vouch for servers of these names and their subdomains, for nothing else, and for no other
 * authority (RFC 5280, 4.2.1.9 and 4.2.1.10): whoever gets hold of its key cannot pose as another site.
 */
export function createAuthority(commonName: string, names: CertificateNames, validity: Validity): IssuedCertificate {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const permitted = [
    ...names.dns.map((name) => sequence(context(2, Buffer.from(name, "latin1")))),
    ...names.addresses.map((address) => sequence(context(7, network(address)))),
  ];
  const extensions = [
    extension("2.5.29.19", true, sequence(boolean(true), integer(0))),
    extension("2.5.29.15", true, SIGN_CERTIFICATES),
    extension("2.5.29.37", false, sequence(SERVER_AUTH)),
    extension("2.5.29.30", true, sequence(explicit(0, ...permitted))),
    extension("2.5.29.14", false, octetString(keyId(publicKey))),
  ];
  const name = distinguishedName(commonName);
  return issue({ name, issuer: name, validity, publicKey, signer: privateKey, extensions, key: privateKey });
}

/** A server's certificate with a fresh key. Clients look at the names of the extension only, not at the common name. */
export function createServerCertificate(
  authority: IssuedCertificate & { readonly commonName: string },
  names: CertificateNames,
  validity: Validity,
): IssuedCertificate {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const signer = createPrivateKey(authority.key);
  const extensions = [
    ...serverExtensions(names),
    extension("2.5.29.14", false, octetString(keyId(publicKey))),
    extension("2.5.29.35", false, sequence(context(0, keyId(createPublicKey(signer))))),
  ];
  const name = distinguishedName(names.dns[0] ?? "localhost");
  const issuer = distinguishedName(authority.commonName);
  return issue({ name, issuer, validity, publicKey, signer, extensions, key: privateKey });
}

/**
 * A server's certificate that nobody but itself vouches for: whoever trusts it trusts this server and no other.
 * Clients look at `names`, not at the common name.
 */
export function createSelfSigned(commonName: string, names: CertificateNames, validity: Validity): IssuedCertificate {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const name = distinguishedName(commonName);
  const extensions = [...serverExtensions(names), extension("2.5.29.14", false, octetString(keyId(publicKey)))];
  return issue({ name, issuer: name, validity, publicKey, signer: privateKey, extensions, key: privateKey });
}

/** What is said of every server: no authority, signs with its key, goes by these names. */
function serverExtensions(names: CertificateNames): Buffer[] {
  const alternatives = [
    ...names.dns.map((name) => context(2, Buffer.from(name, "latin1"))),
    ...names.addresses.map((address) => context(7, addressBytes(address))),
  ];
  return [
    extension("2.5.29.19", true, sequence()),
    extension("2.5.29.15", true, DIGITAL_SIGNATURE),
    extension("2.5.29.37", false, sequence(SERVER_AUTH)),
    extension("2.5.29.17", false, sequence(...alternatives)),
  ];
}

interface Contents {
  readonly name: Buffer;
  readonly issuer: Buffer;
  readonly validity: Validity;
  readonly publicKey: KeyObject;
  readonly signer: KeyObject;
  readonly extensions: readonly Buffer[];
  readonly key: KeyObject;
}

function issue({ name, issuer, validity, publicKey, signer, extensions, key }: Contents): IssuedCertificate {
  const toBeSigned = sequence(
    explicit(0, integer(2)),
    integer(serialNumber()),
    ECDSA_WITH_SHA256,
    issuer,
    sequence(time(validity.from), time(validity.to)),
    name,
    publicKey.export({ type: "spki", format: "der" }),
    explicit(3, sequence(...extensions)),
  );
  const der = sequence(toBeSigned, ECDSA_WITH_SHA256, bitString(sign("sha256", toBeSigned, signer)));
  const body = der.toString("base64").replace(/.{64}(?=.)/g, "$&\n");
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${body}\n-----END CERTIFICATE-----\n`,
    key: key.export({ type: "pkcs8", format: "pem" }).toString(),
  };
}

function extension(id: string, critical: boolean, value: Buffer): Buffer {
  return sequence(oid(id), ...(critical ? [boolean(true)] : []), octetString(value));
}

function distinguishedName(commonName: string): Buffer {
  return sequence(set(sequence(oid("2.5.4.3"), utf8(commonName))));
}

/** Positive, and not to be guessed, as browsers ask of authorities. */
function serialNumber(): Buffer {
  const bytes = randomBytes(16);
  bytes.writeUInt8((bytes.readUInt8(0) & 0x7f) | 0x40, 0);
  return bytes;
}

function keyId(publicKey: KeyObject): Buffer {
  return createHash("sha1")
    .update(publicKey.export({ type: "spki", format: "der" }))
    .digest();
}

function addressBytes(address: string): Buffer {
  if (!ipaddr.isValid(address)) throw new TypeError(`${address} is no IP address`);
  return Buffer.from(ipaddr.parse(address).toByteArray());
}

/** An address and the mask of what may be vouched for beside it. */
function network(address: string): Buffer {
  const bytes = addressBytes(address);
  return bytes.length === 4 && bytes.readUInt8(0) === 127
    ? Buffer.from([127, 0, 0, 0, 255, 0, 0, 0])
    : Buffer.concat([bytes, Buffer.alloc(bytes.length, 255)]);
}
