import { generateKeyPairSync, sign, type KeyObject } from "node:crypto";

/** A certificate and its private key, PEM. */
export interface Pair {
  readonly cert: string;
  readonly key: string;
}

/** A certificate authority of its own. */
export class Authority {
  readonly cert: string;
  readonly #name: string;
  readonly #key: KeyObject;
  #serial = 1;

  constructor(name: string) {
    const { privateKey, publicKey } = newKeys();
    this.#name = name;
    this.#key = privateKey;
    this.cert = certificate(name, name, 1, publicKey, privateKey, [extension(0x13, sequence(der(0x01, bytes(0xff))))]);
  }

  /** Signs a new pair, for a name and for 127.0.0.1. */
  issue(name: string): Pair {
    const { privateKey, publicKey } = newKeys();
    this.#serial += 1;
    const names = sequence(der(0x82, Buffer.from(name)), der(0x87, bytes(127, 0, 0, 1)));
    return {
      cert: certificate(name, this.#name, this.#serial, publicKey, this.#key, [extension(0x11, names)]),
      key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    };
  }
}

function newKeys(): { readonly privateKey: KeyObject; readonly publicKey: KeyObject } {
  return generateKeyPairSync("ec", { namedCurve: "prime256v1" });
}

function certificate(
  subject: string,
  issuer: string,
  serial: number,
  publicKey: KeyObject,
  signer: KeyObject,
  extensions: readonly Buffer[],
): string {
  const algorithm = sequence(der(0x06, bytes(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02)));
  const tbs = sequence(
    der(0xa0, der(0x02, bytes(2))),
    der(0x02, bytes(serial)),
    algorithm,
    commonName(issuer),
    sequence(der(0x17, Buffer.from("200101000000Z")), der(0x17, Buffer.from("491231235959Z"))),
    commonName(subject),
    publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, sequence(...extensions)),
  );
  const signature = der(0x03, Buffer.concat([bytes(0), sign("sha256", tbs, signer)]));
  const body = sequence(tbs, algorithm, signature).toString("base64").replace(/.{64}/g, "$&\n");
  return `-----BEGIN CERTIFICATE-----\n${body}\n-----END CERTIFICATE-----\n`;
}

function commonName(name: string): Buffer {
  return sequence(der(0x31, sequence(der(0x06, bytes(0x55, 0x04, 0x03)), der(0x0c, Buffer.from(name)))));
}

function extension(number: number, value: Buffer): Buffer {
  return sequence(der(0x06, bytes(0x55, 0x1d, number)), der(0x04, value));
}

function sequence(...parts: Buffer[]): Buffer {
  return der(0x30, Buffer.concat(parts));
}

function der(tag: number, content: Buffer): Buffer {
  const size = content.length;
  const length = size < 0x80 ? [size] : size < 0x100 ? [0x81, size] : [0x82, size >> 8, size & 0xff];
  return Buffer.concat([bytes(tag, ...length), content]);
}

function bytes(...values: number[]): Buffer {
  return Buffer.from(values);
}
