import { errorAnswer } from "./errors.ts";
import type { RequestErrorCode } from "./errors.ts";
import { headBytes } from "./inbound-http1.ts";
import type { Inbound } from "./inbound.ts";
import { firstValue } from "./raw-headers.ts";
import type { RawHeaders } from "./raw-headers.ts";

function send(inbound: Inbound, status: number, headers: RawHeaders, body: string, last = false): void {
  const silent = inbound.method === "HEAD";
  const out = inbound.respond({ status, statusText: "", headers, empty: body === "" || silent, last });
  if (body !== "" && !silent) {
    out.write(body);
  }
  inbound.finish([]);
}

/** Answers with a JSON error. Browsers may read it, whatever their origin. */
export function answerError(inbound: Inbound, code: RequestErrorCode): number {
  const { status, body } = errorAnswer(code);
  const headers = ["Content-Type", "application/json", "Content-Length", String(Buffer.byteLength(body))];
  if (code === "too_many_relays" || code === "too_many_streams" || code === "not_ready") {
    headers.push("Retry-After", "1");
  }
  if (firstValue(inbound.headers, "origin") !== undefined) {
    headers.push("Access-Control-Allow-Origin", "*");
  }
  send(inbound, status, headers, body, code === "bad_encoding" || code === "malformed_request");
  return status;
}

/** Answers with an empty 204. */
export function answerEmpty(inbound: Inbound): number {
  send(inbound, 204, [], "");
  return 204;
}

/** Whether a request is a browser asking for permission, which it does without any token. */
export function isPreflight(inbound: Inbound): boolean {
  return (
    inbound.method === "OPTIONS" &&
    firstValue(inbound.headers, "origin") !== undefined &&
    firstValue(inbound.headers, "access-control-request-method") !== undefined
  );
}

/** Whether the request that a browser asks about names its sandbox in a header, which the question itself never carries. */
export function asksToNameSandbox(inbound: Inbound): boolean {
  const asked = firstValue(inbound.headers, "access-control-request-headers") ?? "";
  return asked.split(",").some((name) => name.trim().toLowerCase() === "e2b-sandbox-id");
}

/** Permits what the browser asks for: the token decides, not the origin. */
export function answerPreflight(inbound: Inbound): number {
  const headers = [
    "Access-Control-Allow-Origin",
    "*",
    "Access-Control-Allow-Methods",
    firstValue(inbound.headers, "access-control-request-method") ?? "",
  ];
  const asked = firstValue(inbound.headers, "access-control-request-headers");
  if (asked !== undefined) {
    headers.push("Access-Control-Allow-Headers", asked);
  }
  headers.push("Access-Control-Max-Age", "7200");
  headers.push("Vary", "Origin, Access-Control-Request-Method, Access-Control-Request-Headers");
  send(inbound, 204, headers, "");
  return 204;
}

/** A JSON error as bytes, for connections on which no request could be read. */
export function errorBytes(code: RequestErrorCode, reason: string): string {
  const { status, body } = errorAnswer(code);
  const headers = [
    "Content-Type",
    "application/json",
    "Content-Length",
    String(Buffer.byteLength(body)),
    "Access-Control-Allow-Origin",
    "*",
    "Connection",
    "close",
  ];
  return headBytes(status, reason, headers) + body;
}
