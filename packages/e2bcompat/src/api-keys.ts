import { hash, timingSafeEqual } from "node:crypto";
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
 * Compares with every key, without an early exit and in constant time, over SHA-256 digests, so that neither the length
 * nor the position of a match shows. Without keys, everybody works in `anonymousNamespace`; without that, nobody does.
 * Throws `invalid_options` for keys and namespaces that can never work.
 */
export function createKeyCheck(keys: readonly ApiKey[], anonymousNamespace: string | undefined): KeyCheck {
  const known = keys.map(({ key, namespace }) => {
    if (!KEY.test(key)) {
      throw new E2bError("invalid_options", "an API key consists of printable ASCII characters and is not empty");
    }
    checkNamespace(namespace, "API key");
    return { digest: hash("sha256", key, "buffer"), namespace };
  });
  if (known.length === 0) {
    return () => anonymousNamespace;
  }
  return (presented) => {
    const digest = hash("sha256", presented ?? "", "buffer");
    let namespace: string | undefined;
    for (const candidate of known) {
      if (timingSafeEqual(candidate.digest, digest)) {
        namespace = candidate.namespace;
      }
    }
    return namespace;
  };
}
