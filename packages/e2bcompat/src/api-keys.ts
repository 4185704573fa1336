import { timingSafeEqual } from "node:crypto";
import { E2bError } from "./errors.ts";
import { checkLimits, parseLimits } from "./key-limits.ts";
import type { KeyLimits } from "./key-limits.ts";

/** What a key opens. One object for each key, so that it can stand for the key. */
export interface Access {
  readonly namespace: string;
  /** @default none */
  readonly limits?: KeyLimits | undefined;
}

/** A client's key and the namespace it works in. */
export interface ApiKey extends Access {
  /** A secret. */
  readonly key: string;
}

/** Namespaces are the first half of `<namespace>/<name>` on nodes, and part of template names there. */
const NAMESPACE = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;
/** What an HTTP header can carry without being changed on the way. */
const KEY = /^[\x21-\x7e]+$/;
/** What stands in front of a key that is to be compared. */
const LENGTH_BYTES = 4;

/** Throws `invalid_options` unless `namespace` can stand in front of a sandbox name. */
export function checkNamespace(namespace: string, where: string): void {
  if (!NAMESPACE.test(namespace)) {
    throw new E2bError(
      "invalid_options",
      `${where}: ${JSON.stringify(namespace)} is not a namespace: 1 to 63 letters, digits, ".", "_" or "-", ` +
        "beginning with a letter or a digit",
    );
  }
}

/**
 * Reads a key file: one `key`, `key namespace` or `key namespace limit=number…` per line, blank lines and lines that
 * begin with `#` aside. A key that is listed twice keeps its last line. Throws `invalid_file` with the line number; the
 * line itself is never shown.
 */
export function parseKeyFile(text: string, defaultNamespace: string, file: string): readonly ApiKey[] {
  const keys = new Map<string, ApiKey>();
  for (const [index, raw] of text.split("\n").entries()) {
    const line = raw.trim();
    if (line === "" || line.startsWith("#")) {
      continue;
    }
    const where = `key file ${JSON.stringify(file)}, line ${index + 1}`;
    const [key = "", namespace = defaultNamespace, ...rest] = line.split(/\s+/);
    if (!KEY.test(key)) {
      throw new E2bError("invalid_file", `${where}: a key consists of printable ASCII characters`);
    }
    if (!NAMESPACE.test(namespace)) {
      throw new E2bError("invalid_file", `${where}: the second field is not a namespace`);
    }
    const limits = parseLimits(rest, 3, where);
    keys.set(key, limits === undefined ? { key, namespace } : { key, namespace, limits });
  }
  return [...keys.values()];
}

/** What a presented key opens, or `undefined`. */
export type KeyCheck = (presented: string | undefined) => Access | undefined;

/** Who may do what. */
export interface KeyRing {
  readonly check: KeyCheck;
  /** Everything that some key opens. */
  readonly accesses: readonly Access[];
}

/**
 * Compares with every key, without an early exit and in constant time, over records of one size, so that neither the
 * length nor the position of a match shows. Without keys, everybody works in `anonymousNamespace`; without that, nobody
 * does. Throws `invalid_options` for keys and namespaces that can never work.
 */
export function createKeyRing(keys: readonly ApiKey[], anonymousNamespace: string | undefined): KeyRing {
  for (const { key, namespace, limits } of keys) {
    if (!KEY.test(key)) {
      throw new E2bError("invalid_options", "an API key consists of printable ASCII characters and is not empty");
    }
    checkNamespace(namespace, "API key");
    checkLimits(limits ?? {});
  }
  if (keys.length === 0) {
    const everybody = anonymousNamespace === undefined ? undefined : { namespace: anonymousNamespace };
    return { check: () => everybody, accesses: everybody === undefined ? [] : [everybody] };
  }
  const size = keys.reduce((most, { key }) => Math.max(most, LENGTH_BYTES + key.length), 0);
  const known = keys.map(({ key, namespace, limits }) => {
    const record = Buffer.alloc(size);
    writeRecord(record, key);
    const access: Access = { namespace, limits };
    return { record, access };
  });
  const asked = Buffer.alloc(size);
  const check: KeyCheck = (presented) => {
    writeRecord(asked, presented ?? "");
    let access: Access | undefined;
    for (const candidate of known) {
      if (timingSafeEqual(candidate.record, asked)) {
        access = candidate.access;
      }
    }
    return access;
  };
  return { check, accesses: known.map(({ access }) => access) };
}

/** A key's length and as much of it as fits, filled up with zeros. Hashing would serve as well and costs ten times more. */
function writeRecord(record: Buffer, key: string): void {
  record.fill(0);
  record.writeUInt32LE(key.length);
  record.write(key, LENGTH_BYTES, "utf8");
}
