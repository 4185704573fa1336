import { firstValue, tokens } from "./raw-headers.ts";
import type { RawHeaders } from "./raw-headers.ts";

/** Fields that concern one connection only (RFC 9110 §7.6.1). What `Connection` names is one of them, too. */
const HOP_BY_HOP = new Set([
  "connection",
  "proxy-connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "http2-settings",
]);

/** Fields that a request may not carry on as they came: they are set anew, or are not the guest's to see. */
const REPLACED = new Set([
  "host",
  "content-length",
  "expect",
  "forwarded",
  "x-forwarded-for",
  "x-forwarded-host",
  "x-forwarded-proto",
  // The key of the control plane would give a guest power over every sandbox of its owner.
  "x-api-key",
]);

/** Fields that must not arrive behind a body: framing, routing and credentials were decided before it. */
const NO_TRAILER = new Set([
  "content-length",
  "host",
  "authorization",
  "cookie",
  "x-api-key",
  "x-access-token",
  "e2b-sandbox-id",
  "e2b-sandbox-port",
]);

/** How a message body is delimited. */
export type Framing = { readonly kind: "none" | "chunked" } | { readonly kind: "length"; readonly length: string };

/** What a request to the guest is made of. */
export interface GuestHeadersOptions {
  readonly raw: RawHeaders;
  /** `{port}-{id}.{domain}`, whatever the client asked. */
  readonly host: string;
  readonly framing: Framing;
  readonly method: string;
  readonly peer: string;
  readonly inboundAuthority: string;
  readonly secure: boolean;
  /** Without derived tokens, `X-Access-Token` is the sandbox's own token, which a guest must not learn. */
  readonly stripAccessToken: boolean;
}

/** What the guest is told of its connection, behind the fields of {@link guestRequestHeaders}. */
export function connectionFields(keep: boolean, upgrade: string | undefined): readonly string[] {
  if (upgrade !== undefined) {
    return ["Connection", "Upgrade", "Upgrade", upgrade];
  }
  // HTTP/1.1 keeps connections unless somebody says otherwise.
  return keep ? [] : ["Connection", "close"];
}

function namedByConnection(raw: RawHeaders): ReadonlySet<string> | undefined {
  const named = tokens(raw, "connection");
  // The two words of nearly every request name nothing.
  return named.every((name) => name === "close" || name === "keep-alive" || name === "upgrade")
    ? undefined
    : new Set(named);
}

/** Fields of the request to the guest, for HTTP/1.1, but for those of {@link connectionFields}. */
export function guestRequestHeaders(options: GuestHeadersOptions): string[] {
  const { raw, framing } = options;
  const named = namedByConnection(raw);
  const http2 = raw[0]?.startsWith(":") === true;
  const out = ["Host", options.host];
  let cookies: string | undefined;
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const field = raw[i] ?? "";
    const value = raw[i + 1] ?? "";
    const name = field.toLowerCase();
    if (
      field.startsWith(":") ||
      HOP_BY_HOP.has(name) ||
      REPLACED.has(name) ||
      named?.has(name) === true ||
      (options.stripAccessToken && name === "x-access-token")
    ) {
      continue;
    }
    if (http2 && name === "cookie") {
      // HTTP/2 splits cookies into fields, HTTP/1.1 allows one (RFC 9113 §8.2.3).
      cookies = cookies === undefined ? value : `${cookies}; ${value}`;
      continue;
    }
    out.push(field, value);
  }
  if (cookies !== undefined) {
    out.push("Cookie", cookies);
  }
  out.push("X-Forwarded-For", options.peer, "X-Forwarded-Host", options.inboundAuthority);
  out.push("X-Forwarded-Proto", options.secure ? "https" : "http");
  if (tokens(raw, "te").some((token) => token.split(";")[0]?.trim() === "trailers")) {
    out.push("TE", "trailers");
  }
  if (framing.kind === "length") {
    out.push("Content-Length", framing.length);
  } else if (framing.kind === "chunked") {
    const announced = firstValue(raw, "trailer");
    if (announced !== undefined) {
      out.push("Trailer", announced);
    }
    out.push("Transfer-Encoding", "chunked");
  } else if (!METHODS_WITHOUT_BODY.has(options.method)) {
    out.push("Content-Length", "0");
  }
  return out;
}

const METHODS_WITHOUT_BODY = new Set(["GET", "HEAD", "DELETE", "OPTIONS", "TRACE", "CONNECT"]);

/**
 * Fields of the guest's answer for the client: everything but the connection's own, and no length where no answer may
 * have one (RFC 9110 §8.6). `Trailer` is announced again where a body without a length allows trailers.
 */
export function clientResponseHeaders(raw: RawHeaders, status: number): string[] {
  const named = namedByConnection(raw);
  const unsized = status < 200 || status === 204;
  const out: string[] = [];
  let sized = false;
  let streams = false;
  let accelerated = false;
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const field = raw[i] ?? "";
    const value = raw[i + 1] ?? "";
    const name = field.toLowerCase();
    if (field.startsWith(":") || HOP_BY_HOP.has(name) || named?.has(name) === true) {
      continue;
    }
    if (name === "content-length") {
      sized = true;
      if (unsized) {
        continue;
      }
    }
    streams ||= name === "content-type" && /^(?:application\/connect\+|text\/event-stream)/i.test(value);
    accelerated ||= name === "x-accel-buffering";
    out.push(field, value);
  }
  if (!sized) {
    const announced = firstValue(raw, "trailer");
    if (announced !== undefined) {
      out.push("Trailer", announced);
    }
  }
  if (streams && !accelerated) {
    // A stock nginx in front would hold events back until its buffer is full.
    out.push("X-Accel-Buffering", "no");
  }
  return out;
}

/** Trailers that may pass: no framing, no routing, no credentials. */
export function passableTrailers(raw: RawHeaders): string[] {
  const out: string[] = [];
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const field = raw[i] ?? "";
    const name = field.toLowerCase();
    if (!field.startsWith(":") && !HOP_BY_HOP.has(name) && !NO_TRAILER.has(name)) {
      out.push(field, raw[i + 1] ?? "");
    }
  }
  return out;
}

/** Fields of the answer that switches protocols, in the words of the guest. */
export function switchHeaders(raw: RawHeaders): string[] {
  const protocol = firstValue(raw, "upgrade") ?? "";
  return [...clientResponseHeaders(raw, 101), "Connection", "Upgrade", "Upgrade", protocol];
}
