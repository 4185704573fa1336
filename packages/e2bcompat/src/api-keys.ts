import { timingSafeEqual } from "node:crypto";
import { E2bError } from "./errors.ts";

/** A client's key and the namespace it works in. */
export interface ApiKey {
  /** A secret. */
  readonly key: string;
  readonly namespace: string;
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
 * Reads a key file: one `key` or `key namespace` per line, blank lines and lines that begin with `#` aside. A key that
 * is listed twice keeps its last line. Throws `invalid_file` with the line number; the line itself is never shown.
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
    if (rest.length > 0) {
      throw new E2bError("invalid_file", `${where}: want "key" or "key namespace"`);
    }
    if (!KEY.test(key)) {
      throw new E2bError("invalid_file", `${where}: a key consists of printable ASCII characters`);
    }
    if (!NAMESPACE.test(namespace)) {
      throw new E2bError("invalid_file", `${where}: the second field is not a namespace`);
    }
    keys.set(key, { key, namespace });
  }
  return [...keys.values()];
}

/** The namespace that a presented key opens, or `undefined`. */
export type KeyCheck = (presented: string | undefined) => string | undefined;

/**
 * Compares with every key, without an early exit and in constant time, over records of one size, so that neither the
 * length nor the position of a match shows. Without keys, everybody works in `anonymousNamespace`; without that, nobody
 * does. Throws `invalid_options` for keys and namespaces that can never work.
 */
export function createKeyCheck(keys: readonly ApiKey[], anonymousNamespace: string | undefined): KeyCheck {
  for (const { key, namespace } of keys) {
    if (!KEY.test(key)) {
      throw new E2bError("invalid_options", "an API key consists of printable ASCII characters and is not empty");
    }
    checkNamespace(namespace, "API key");
  }
  if (keys.length === 0) {
    return () => anonymousNamespace;
  }
  const size = keys.reduce((most, { key }) => Math.max(most, LENGTH_BYTES + key.length), 0);
  const known = keys.map(({ key, namespace }) => {
    const record = Buffer.alloc(size);
    writeRecord(record, key);
    return { record, namespace };
  });
  const asked = Buffer.alloc(size);
  return (presented) => {
    writeRecord(asked, presented ?? "");
    let namespace: string | undefined;
    for (const candidate of known) {
      if (timingSafeEqual(candidate.record, asked)) {
        namespace = candidate.namespace;
      }
    }
    return namespace;
  };
}

/** A key's length and as much of it as fits, filled up with zeros. Hashing would serve as well and costs ten times more. */
function writeRecord(record: Buffer, key: string): void {
  record.fill(0);
  record.writeUInt32LE(key.length);
  record.write(key, LENGTH_BYTES, "utf8");
}
