import type { X509Certificate } from "node:crypto";
import {
  BIT_STRING,
  BOOLEAN,
  INTEGER,
  OBJECT_IDENTIFIER,
  OCTET_STRING,
  readInside,
  readOid,
  readValues,
  SEQUENCE,
  type DerValue,
} from "./der-reader.ts";

/** What a certificate says about itself, as far as a chain depends on it (RFC 5280). */
export interface Certificate {
  readonly x509: X509Certificate;
  /** SHA-256 over all of it: tells it from every other one. */
  readonly fingerprint: string;
  /** The last one: the most specific. */
  readonly commonName: string | undefined;
  readonly organizations: readonly string[];
  /** Milliseconds since 1970. */
  readonly notBefore: number;
  readonly notAfter: number;
  /** Whether it says that it is an authority. Those of X.509 v1 cannot. */
  readonly isAuthority: boolean;
  /** How many authorities may stand between it and the leaf. */
  readonly pathLength: number | undefined;
  /** Whether its key may sign certificates; `undefined` when it does not say. */
  readonly maySign: boolean | undefined;
  /** Purposes as object identifiers; `undefined`: any. */
  readonly purposes: readonly string[] | undefined;
  readonly hasAlternativeNames: boolean;
  readonly hasNameConstraints: boolean;
  /** It asks for something that is not understood here, and says that it must be. */
  readonly isBeyondUs: boolean;
  /** How its issuer signed it. */
  readonly signatureAlgorithm: string;
}

const BASIC_CONSTRAINTS = "2.5.29.19";
const KEY_USAGE = "2.5.29.15";
const PURPOSES = "2.5.29.37";
const ALTERNATIVE_NAMES = "2.5.29.17";
const NAME_CONSTRAINTS = "2.5.29.30";
/** Critical extensions that are judged here, or that change nothing for a client. */
const UNDERSTOOD = new Set([BASIC_CONSTRAINTS, KEY_USAGE, PURPOSES, ALTERNATIVE_NAMES, NAME_CONSTRAINTS]);
/** Bit 5 of the key usage, counted from the left. */
const KEY_CERT_SIGN = 0x04;
const EXTENSIONS_TAG = 0xa3;
const VERSION_TAG = 0xa0;

/** Reads a certificate. @throws RangeError when its form is not that of RFC 5280. */
export function readCertificate(x509: X509Certificate): Certificate {
  const [toBeSigned, algorithm] = readInside(x509.raw);
  if (toBeSigned?.tag !== SEQUENCE || algorithm?.tag !== SEQUENCE) {
    throw new RangeError("no certificate");
  }
  const fields = readValues(toBeSigned.content);
  const inner = fields[fields[0]?.tag === VERSION_TAG ? 2 : 1];
  // Both places name the algorithm; which one was meant is not to be guessed.
  if (inner === undefined || !inner.content.equals(algorithm.content)) {
    throw new RangeError("two algorithms of one signature");
  }
  const extensions = readExtensions(fields.find(({ tag }) => tag === EXTENSIONS_TAG));
  const basic = extensions.get(BASIC_CONSTRAINTS);
  const usage = extensions.get(KEY_USAGE);
  const purposes = extensions.get(PURPOSES);
  const [isAuthority, pathLength] = basic === undefined ? [false, undefined] : readBasic(basic.value);
  return {
    x509,
    fingerprint: x509.fingerprint256,
    commonName: subjectValues(x509, "CN").at(-1),
    organizations: subjectValues(x509, "O"),
    notBefore: x509.validFromDate.getTime(),
    notAfter: x509.validToDate.getTime(),
    isAuthority,
    pathLength,
    maySign: usage === undefined ? undefined : readUsage(usage.value),
    purposes: purposes === undefined ? undefined : readInside(purposes.value).map(({ content }) => readOid(content)),
    hasAlternativeNames: extensions.has(ALTERNATIVE_NAMES),
    hasNameConstraints: extensions.has(NAME_CONSTRAINTS),
    isBeyondUs: [...extensions].some(([id, { critical }]) => critical && !UNDERSTOOD.has(id)),
    signatureAlgorithm: readOid(readValues(algorithm.content)[0]?.content ?? Buffer.alloc(0)),
  };
}

interface Extension {
  readonly critical: boolean;
  readonly value: Buffer;
}

function readExtensions(field: DerValue | undefined): ReadonlyMap<string, Extension> {
  const found = new Map<string, Extension>();
  if (field === undefined) {
    return found;
  }
  for (const { content } of readInside(field.content)) {
    const [id, ...rest] = readValues(content);
    const value = rest.at(-1);
    if (id?.tag !== OBJECT_IDENTIFIER || value?.tag !== OCTET_STRING) {
      throw new RangeError("no extension");
    }
    const name = readOid(id.content);
    if (found.has(name)) {
      throw new RangeError("an extension twice");
    }
    const [flag] = rest;
    found.set(name, { critical: flag?.tag === BOOLEAN && flag.content[0] !== 0, value: value.content });
  }
  return found;
}

function readBasic(bytes: Buffer): [isAuthority: boolean, pathLength: number | undefined] {
  const values = readInside(bytes);
  const flag = values.find(({ tag }) => tag === BOOLEAN);
  const limit = values.find(({ tag }) => tag === INTEGER);
  const length = limit?.content.length ?? 0;
  if (length > 4) {
    throw new RangeError("a path without an end");
  }
  return [
    flag !== undefined && flag.content[0] !== 0,
    limit === undefined || length === 0 ? undefined : limit.content.readIntBE(0, length),
  ];
}

function readUsage(bytes: Buffer): boolean {
  const [value] = readValues(bytes);
  if (value?.tag !== BIT_STRING) {
    throw new RangeError("no key usage");
  }
  return ((value.content[1] ?? 0) & KEY_CERT_SIGN) !== 0;
}

/** Values of the subject as they are; the text form of it would have to be taken apart again. */
function subjectValues(x509: X509Certificate, key: string): readonly string[] {
  const subject: unknown = x509.toLegacyObject().subject;
  const value: unknown = typeof subject === "object" && subject !== null ? Reflect.get(subject, key) : undefined;
  const values: readonly unknown[] = Array.isArray(value) ? value : [value];
  return values.filter((one): one is string => typeof one === "string" && one !== "");
}
