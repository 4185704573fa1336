import { generateKeyPairSync, sign, type KeyObject } from "node:crypto";

/** A certificate and its private key, PEM. */
export interface Pair {
  readonly cert: string;
  readonly key: string;
}

/** What a certificate says; whatever is left out makes a good one. */
export interface Contents {
  /** @default none */
  readonly commonName?: string | undefined;
  /** @default none */
  readonly organizations?: readonly string[] | undefined;
  /** @default an hour ago */
  readonly notBefore?: Date | undefined;
  /** @default in an hour */
  readonly notAfter?: Date | undefined;
  /** Object identifiers; empty: no such extension. @default [CLIENT_AUTH] */
  readonly purposes?: readonly string[] | undefined;
  /** @default localhost and 127.0.0.1 for servers, none for others */
  readonly alternativeNames?: boolean | undefined;
  /** More extensions: their identifier, whether they are critical, their value. */
  readonly extensions?: readonly (readonly [id: string, critical: boolean, value: Buffer])[] | undefined;
  /** Signs with SHA-1. @default false */
  readonly weak?: boolean | undefined;
}

/** What an authority says. */
export interface AuthorityContents extends Contents {
  /** `false`: it is none, and signs all the same. @default true */
  readonly isAuthority?: boolean | undefined;
  readonly pathLength?: number | undefined;
  /** Whether its key usage lets it sign certificates; absent: it has none. */
  readonly maySign?: boolean | undefined;
}

export const CLIENT_AUTH = "1.3.6.1.5.5.7.3.2";
export const SERVER_AUTH = "1.3.6.1.5.5.7.3.1";

let serial = 1;

/** An authority that signs whatever a test wants. */
export class TestAuthority {
  readonly cert: string;
  readonly #name: string;
  readonly #key: KeyObject;

  private constructor(name: string, key: KeyObject, cert: string) {
    this.#name = name;
    this.#key = key;
    this.cert = cert;
  }

  /** One that vouches for itself. */
  static root(name: string, contents: AuthorityContents = {}): TestAuthority {
    const { privateKey, publicKey } = newKeys();
    const signer = { name, key: privateKey };
    return new TestAuthority(name, privateKey, certificate(signer, publicKey, authorityContents(name, contents)));
  }

  /** One that this one vouches for. */
  below(name: string, contents: AuthorityContents = {}): TestAuthority {
    const { privateKey, publicKey } = newKeys();
    const signer = { name: this.#name, key: this.#key };
    return new TestAuthority(name, privateKey, certificate(signer, publicKey, authorityContents(name, contents)));
  }

  /** Signs a new pair. */
  issue(contents: Contents): Pair {
    const { privateKey, publicKey } = newKeys();
    return {
      cert: certificate({ name: this.#name, key: this.#key }, publicKey, contents),
      key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    };
  }

  /** A pair for `localhost` and 127.0.0.1. */
  server(contents: Contents = {}): Pair {
    return this.issue({ commonName: "localhost", purposes: [SERVER_AUTH], alternativeNames: true, ...contents });
  }
}

function authorityContents(name: string, contents: AuthorityContents): Contents {
  const { isAuthority = true, pathLength, maySign, ...rest } = contents;
  const basic = sequence(
    ...(isAuthority ? [der(0x01, Buffer.from([0xff]))] : []),
    ...(pathLength === undefined ? [] : [der(0x02, Buffer.from([pathLength]))]),
  );
  const usage = der(0x03, Buffer.from(maySign === true ? [2, 0x04] : [7, 0x80]));
  return {
    commonName: name,
    purposes: [],
    ...rest,
    extensions: [
      ["2.5.29.19", true, basic],
      ...(maySign === undefined ? [] : [["2.5.29.15", true, usage] as const]),
      ...(rest.extensions ?? []),
    ],
  };
}

function newKeys(): { readonly privateKey: KeyObject; readonly publicKey: KeyObject } {
  return generateKeyPairSync("ec", { namedCurve: "prime256v1" });
}

function certificate(signer: { name: string; key: KeyObject }, publicKey: KeyObject, contents: Contents): string {
  const { commonName, organizations = [], purposes = [CLIENT_AUTH], weak = false } = contents;
  const { notBefore = new Date(Date.now() - 3_600_000), notAfter = new Date(Date.now() + 3_600_000) } = contents;
  const algorithm = sequence(oid(weak ? "1.2.840.10045.4.1" : "1.2.840.10045.4.3.2"));
  const names = sequence(der(0x82, Buffer.from("localhost")), der(0x87, Buffer.from([127, 0, 0, 1])));
  const extensions: (readonly [string, boolean, Buffer])[] = [
    ...(purposes.length === 0 ? [] : [["2.5.29.37", false, sequence(...purposes.map(oid))] as const]),
    ...(contents.alternativeNames === true ? [["2.5.29.17", false, names] as const] : []),
    ...(contents.extensions ?? []),
  ];
  serial += 1;
  const tbs = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.from([1, serial >> 8, serial & 0xff])),
    algorithm,
    subject([["2.5.4.3", signer.name]]),
    sequence(time(notBefore), time(notAfter)),
    subject([
      ...organizations.map((name) => ["2.5.4.10", name] as const),
      ...(commonName === undefined ? [] : [["2.5.4.3", commonName] as const]),
    ]),
    publicKey.export({ type: "spki", format: "der" }),
    ...(extensions.length === 0 ? [] : [der(0xa3, sequence(...extensions.map(extension)))]),
  );
  const signature = der(0x03, Buffer.concat([Buffer.from([0]), sign(weak ? "sha1" : "sha256", tbs, signer.key)]));
  const body = sequence(tbs, algorithm, signature)
    .toString("base64")
    .replace(/.{64}(?=.)/g, "$&\n");
  return `-----BEGIN CERTIFICATE-----\n${body}\n-----END CERTIFICATE-----\n`;
}

function subject(parts: readonly (readonly [id: string, value: string])[]): Buffer {
  return sequence(...parts.map(([id, value]) => der(0x31, sequence(oid(id), der(0x0c, Buffer.from(value))))));
}

function extension([id, critical, value]: readonly [string, boolean, Buffer]): Buffer {
  return sequence(oid(id), ...(critical ? [der(0x01, Buffer.from([0xff]))] : []), der(0x04, value));
}

function time(date: Date): Buffer {
  return der(0x18, Buffer.from(`${date.toISOString().slice(0, 19).replace(/[-T:]/g, "")}Z`));
}

/** OBJECT IDENTIFIER out of its dotted form. */
export function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split(".").map(Number);
  const bytes = rest.flatMap((arc) => {
    const digits = [arc & 0x7f];
    for (let left = arc >>> 7; left > 0; left >>>= 7) {
      digits.unshift((left & 0x7f) | 0x80);
    }
    return digits;
  });
  return der(0x06, Buffer.from([first * 40 + second, ...bytes]));
}

/** SEQUENCE of values. */
export function sequence(...parts: readonly Buffer[]): Buffer {
  return der(0x30, Buffer.concat(parts));
}

/** A value with its tag and length. */
export function der(tag: number, content: Buffer): Buffer {
  const size = content.length;
  const length = size < 0x80 ? [size] : size < 0x100 ? [0x81, size] : [0x82, size >> 8, size & 0xff];
  return Buffer.concat([Buffer.from([tag, ...length]), content]);
}
