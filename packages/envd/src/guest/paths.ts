import { posix } from "node:path";

import { EnvdError } from "../errors.ts";

/** One guest directory and the directory that holds it in the file system the daemon sees. Both absolute. */
export interface PathMapping {
  readonly guest: string;
  readonly host: string;
}

/** Translates between the paths a client speaks of and those of the file system. */
export interface PathMap {
  toHost(path: string): string;
  toGuest(path: string): string;
}

/**
 * @throws TypeError when a mapping is not absolute
 */
export function createPathMap(mappings: readonly PathMapping[]): PathMap {
  for (const { guest, host } of mappings) {
    if (!posix.isAbsolute(guest) || !posix.isAbsolute(host)) {
      throw new TypeError(`path mapping ${guest} → ${host} must name absolute directories`);
    }
  }
  // Guests with a root of their own, the usual case, pay nothing.
  if (mappings.length === 0) return { toHost: (path) => path, toGuest: (path) => path };
  const clean = mappings.map(({ guest, host }) => ({ guest: stripSlash(guest), host: stripSlash(host) }));
  const byGuest = clean.toSorted((a, b) => b.guest.length - a.guest.length);
  const byHost = clean.toSorted((a, b) => b.host.length - a.host.length);
  return {
    toHost(path) {
      const plain = posix.normalize(path);
      const found = byGuest.find(({ guest }) => isWithin(plain, guest));
      return found === undefined ? path : found.host + plain.slice(found.guest.length);
    },
    toGuest(path) {
      const found = byHost.find(({ host }) => isWithin(path, host));
      return found === undefined ? path : found.guest + path.slice(found.host.length);
    },
  };
}

/**
 * The path a request means: empty is `fallback` or the home, `~` the home, an absolute path is taken as it is, any
 * other is relative to the home, whatever the working directory.
 *
 * @throws EnvdError `invalid_argument` for `~name` and for a NUL byte
 */
export function resolveGuestPath(path: string, home: string, fallback: string | undefined): string {
  if (path.includes("\0")) throw new EnvdError("invalid_argument", "path must not contain a NUL byte");
  if (path === "") return fallback ?? home;
  if (path === "~") return home;
  if (path.startsWith("~/")) return posix.join(home, path.slice(2));
  if (path.startsWith("~"))
    throw new EnvdError("invalid_argument", `cannot expand the home of another user in '${path}'`);
  return posix.isAbsolute(path) ? path : posix.join(home, path);
}

function isWithin(path: string, directory: string): boolean {
  return path === directory || path.startsWith(`${directory}/`);
}

function stripSlash(path: string): string {
  return path.replace(/\/+$/, "");
}
