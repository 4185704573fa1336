import { parsePort, parseSandboxHost } from "@org/sandbox-address";
import { firstValue } from "./raw-headers.ts";
import type { RawHeaders } from "./raw-headers.ts";

/** A request target, taken apart. */
export interface Target {
  /** Authority of an absolute-form target; it overrides `Host`. */
  readonly authority: string | undefined;
  /** Path and query as they were written. */
  readonly raw: string;
  /** Path without query, percent-decoded once, as a guest's router would read it. */
  readonly path: string;
  /** Query without its `?`. */
  readonly query: string;
}

/** The guest port a request is for. */
export interface Route {
  readonly port: number;
  /** As the client spelled it. */
  readonly id: string;
}

// What a guest daemon offers to its host alone: it prepares, freezes or replaces the guest.
const INTERNAL = new Set(["/init", "/freeze", "/unfreeze", "/fsfreeze", "/fsthaw", "/collapse", "/upgrade"]);

const ABSOLUTE = /^https?:\/\/([^/?#\\]*)(.*)$/is;
const ESCAPES = /%([0-9a-fA-F]{2})/g;
const UNCLEAN = /\/\/|\/\.{1,2}(?:\/|$)|\\/;

/**
 * Decodes once and byte by byte: text that is no UTF-8 must not hide what stands beside it. Broken escapes stay.
 */
function decodeOnce(path: string): string {
  return path.includes("%")
    ? path.replace(ESCAPES, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    : path;
}

/** Reads a request target: origin form or absolute form; `undefined` for anything else. */
export function parseTarget(target: string): Target | undefined {
  let raw = target;
  let authority: string | undefined;
  if (!target.startsWith("/")) {
    const match = ABSOLUTE.exec(target);
    if (match === null) {
      return undefined;
    }
    const host = match[1] ?? "";
    authority = host.slice(host.lastIndexOf("@") + 1);
    raw = match[2] ?? "";
    if (!raw.startsWith("/")) {
      raw = `/${raw}`;
    }
  }
  const pathEnd = raw.search(/[?#]/);
  const path = pathEnd < 0 ? raw : raw.slice(0, pathEnd);
  const rest = pathEnd < 0 ? "" : raw.slice(pathEnd);
  const query = rest.startsWith("?") ? (rest.slice(1).split("#", 1)[0] ?? "") : "";
  return { authority, raw, path: decodeOnce(path), query };
}

/** Collapses `//`, `.` and `..`, takes `\` for `/` and drops closing slashes: the most generous reading of a path. */
function cleanPath(path: string): string {
  if (!UNCLEAN.test(path) && !(path.length > 1 && path.endsWith("/"))) {
    return path;
  }
  const kept: string[] = [];
  for (const segment of path.split(/[/\\]/)) {
    if (segment === "..") {
      kept.pop();
    } else if (segment !== "" && segment !== ".") {
      kept.push(segment);
    }
  }
  return `/${kept.join("/")}`;
}

/** Whether a decoded path leads to one of the guest daemon's internal calls, in any spelling a router may accept. */
export function isInternalPath(path: string): boolean {
  return INTERNAL.has(cleanPath(path).toLowerCase());
}

/** Whether a decoded path is the guest daemon's health probe. */
export function isHealthPath(path: string): boolean {
  return cleanPath(path) === "/health";
}

/** Whether a request is for a file URL that carries its own signature. The guest daemon judges the signature. */
export function isSignedFile(target: Target): boolean {
  return target.path === "/files" && (new URLSearchParams(target.query).get("signature") ?? "") !== "";
}

/**
 * The guest port that a request names. The header pair wins over the host; a header id without a usable port names
 * nothing, and a port without an id is ignored.
 */
export function parseRoute(raw: RawHeaders, authority: string, domain: string): Route | undefined {
  const id = firstValue(raw, "e2b-sandbox-id");
  if (id === undefined || id === "") {
    return parseSandboxHost(authority, domain);
  }
  const port = parsePort(firstValue(raw, "e2b-sandbox-port") ?? "");
  return port === undefined ? undefined : { port, id };
}
