import { generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";

/** A certificate and its private key, PEM. The key is a secret. */
export interface KubePair {
  readonly cert: string;
  readonly key: string;
}

/** What a certificate says. */
export interface KubeCertificateOptions {
  readonly commonName: string;
  /** What Kubernetes takes for the groups of a user. */
  readonly organizations?: readonly string[];
  /** DNS names beside the address 127.0.0.1. Absent: the certificate is for a client. */
  readonly serverNames?: readonly string[];
  /** Days from now on which it begins and ends to hold. @default from yesterday for ten days */
  readonly days?: readonly [from: number, to: number];
}

const DAY_MS = 86_400_000;
const ECDSA_WITH_SHA256 = sequence(oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02));
const SERVER_AUTH = oid(0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01);
const CLIENT_AUTH = oid(0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02);

/** An authority as a cluster has several: for its servers, for clients, for front proxies. */
export class KubeAuthority {
  readonly cert: string;
  readonly #name: Buffer;
  readonly #key: KeyObject;

  constructor(commonName: string) {
    const { privateKey, publicKey } = newKeys();
    this.#name = distinguishedName(commonName, []);
    this.#key = privateKey;
    const basics = [
      extension(0x13, der(0x30, der(0x01, Buffer.from([0xff])))),
      extension(0x0f, der(0x03, Buffer.from([2, 4]))),
    ];
    this.cert = certificate(this.#name, this.#name, publicKey, privateKey, [-1, 3650], basics);
  }

  /** Signs a new pair. */
  issue(options: KubeCertificateOptions): KubePair {
    const { privateKey, publicKey } = newKeys();
    const { commonName, organizations = [], serverNames, days = [-1, 10] } = options;
    const names = (serverNames ?? []).map((name) => der(0x82, Buffer.from(name)));
    const extensions = [
      extension(0x25, sequence(serverNames === undefined ? CLIENT_AUTH : SERVER_AUTH)),
      ...(serverNames === undefined
        ? []
        : [extension(0x11, sequence(...names, der(0x87, Buffer.from([127, 0, 0, 1]))))]),
    ];
    const subject = distinguishedName(commonName, organizations);
    return {
      cert: certificate(subject, this.#name, publicKey, this.#key, days, extensions),
      key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    };
  }
}

function newKeys(): { readonly privateKey: KeyObject; readonly publicKey: KeyObject } {
  return generateKeyPairSync("ec", { namedCurve: "prime256v1" });
}

function certificate(
  subject: Buffer,
  issuer: Buffer,
  publicKey: KeyObject,
  signer: KeyObject,
  [from, to]: readonly [number, number],
  extensions: readonly Buffer[],
): string {
  const serial = randomBytes(12);
  serial.writeUInt8(0x40 | (serial.readUInt8(0) & 0x3f), 0);
  const now = Date.now();
  const body = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, serial),
    ECDSA_WITH_SHA256,
    issuer,
    sequence(utcTime(now + from * DAY_MS), utcTime(now + to * DAY_MS)),
    subject,
    publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, sequence(...extensions)),
  );
  const signature = der(0x03, Buffer.concat([Buffer.from([0]), sign("sha256", body, signer)]));
  const text = sequence(body, ECDSA_WITH_SHA256, signature).toString("base64").replaceAll(/.{64}/g, "$&\n");
  return `-----BEGIN CERTIFICATE-----\n${text.trimEnd()}\n-----END CERTIFICATE-----\n`;
}

/** Of the years up to 2049. */
function utcTime(ms: number): Buffer {
  return der(0x17, Buffer.from(`${new Date(ms).toISOString().replaceAll(/\D/g, "").slice(2, 14)}Z`));
}

function distinguishedName(commonName: string, organizations: readonly string[]): Buffer {
  const part = (type: number, text: string): Buffer =>
    der(0x31, sequence(oid(0x55, 0x04, type), der(0x0c, Buffer.from(text))));
  return sequence(...organizations.map((name) => part(0x0a, name)), part(0x03, commonName));
}

function extension(number: number, value: Buffer): Buffer {
  return sequence(oid(0x55, 0x1d, number), der(0x04, value));
}

function oid(...bytes: readonly number[]): Buffer {
  return der(0x06, Buffer.from(bytes));
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return der(0x30, Buffer.concat(parts));
}

function der(tag: number, content: Buffer): Buffer {
  const size = content.length;
  const length = size < 0x80 ? [size] : size < 0x100 ? [0x81, size] : [0x82, size >> 8, size & 0xff];
  return Buffer.concat([Buffer.from([tag, ...length]), content]);
}
