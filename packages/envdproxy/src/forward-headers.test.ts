import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  clientResponseHeaders,
  connectionFields,
  guestRequestHeaders,
  passableTrailers,
  switchHeaders,
} from "./forward-headers.ts";
import type { GuestHeadersOptions } from "./forward-headers.ts";
import { firstValue, http2Fields } from "./raw-headers.ts";

function forGuest(raw: readonly string[], options: Partial<GuestHeadersOptions> = {}): string[] {
  const fields = guestRequestHeaders({
    raw,
    host: "80-sb-a.example.com",
    framing: { kind: "none" },
    method: "GET",
    peer: "192.0.2.1",
    inboundAuthority: "proxy.example.com:8443",
    secure: true,
    stripAccessToken: true,
    ...options,
  });
  return [...fields, ...connectionFields(false, undefined)];
}

const OWN = [
  "Host",
  "80-sb-a.example.com",
  "X-Forwarded-For",
  "192.0.2.1",
  "X-Forwarded-Host",
  "proxy.example.com:8443",
  "X-Forwarded-Proto",
  "https",
  "Connection",
  "close",
];

describe("headers for the guest", () => {
  it("rewrites the host, and sets where the request came from", () => {
    expect(
      forGuest(["hOst", "evil", "X-Forwarded-For", "6.6.6.6", "forwarded", "for=6", "X-Forwarded-Proto", "x"]),
    ).toStrictEqual(OWN);
  });

  it.each([
    [["Connection", "close, X-Secret", "X-Secret", "1", "X-Kept", "2"], ["X-Kept", "2"], "what Connection names"],
    [["Connection", "a", "Connection", "b", "A", "1", "b", "2"], [], "what any of several Connection fields names"],
    [["Keep-Alive", "1", "Proxy-Connection", "1", "TE", "gzip", "Trailer", "x", "Upgrade", "h2c"], [], "hop-by-hop"],
    [["Proxy-Authorization", "x", "proxy-authenticate", "x"], [], "the proxy's credentials"],
    [["X-API-Key", "e2b_1", "x-api-key", "e2b_2"], [], "the control plane's key"],
    [["Expect", "100-continue"], [], "an expectation that is met here"],
    [["Content-Length", "5"], [], "a length that does not fit the framing"],
  ])("drops %j", (raw, left) => {
    expect(forGuest(raw)).toStrictEqual([...OWN.slice(0, 2), ...left, ...OWN.slice(2)]);
  });

  it("keeps everything else, with case, order and duplicates", () => {
    const raw = [
      ["authorization", "Basic dTo="],
      ["COOKIE", "a=1"],
      ["X-Dup", "1"],
      ["x-dup", "2"],
      ["Accept-Encoding", "gzip"],
      ["E2b-Sandbox-Id", "sb-a"],
      ["Keepalive-Ping-Interval", "50"],
    ].flat();
    expect(forGuest(raw).slice(2, 2 + raw.length)).toStrictEqual(raw);
  });

  it("shows the guest a derived token only", () => {
    expect(firstValue(forGuest(["X-Access-Token", "t"]), "x-access-token")).toBeUndefined();
    expect(firstValue(forGuest(["X-Access-Token", "t"], { stripAccessToken: false }), "x-access-token")).toBe("t");
  });

  it.each([
    ["POST", { kind: "length", length: "5" } as const, ["Content-Length", "5"]],
    ["POST", { kind: "none" } as const, ["Content-Length", "0"]],
    ["GET", { kind: "none" } as const, []],
    ["GET", { kind: "chunked" } as const, ["Trailer", "X-Sum", "Transfer-Encoding", "chunked"]],
  ])("frames a %s body of %j", (method, framing, fields) => {
    const headers = forGuest(["Trailer", "X-Sum", "Connection", "content-length"], { method, framing });
    expect(headers.slice(-2 - fields.length, -2)).toStrictEqual(fields);
  });

  it("offers trailers when the client does", () => {
    expect(firstValue(forGuest(["te", "gzip, Trailers;q=1"]), "te")).toBe("trailers");
  });

  it("asks the guest to switch protocols", () => {
    expect(connectionFields(false, "websocket")).toStrictEqual(["Connection", "Upgrade", "Upgrade", "websocket"]);
  });

  it("asks the guest to close the connection unless it may be used again", () => {
    expect(connectionFields(false, undefined)).toStrictEqual(["Connection", "close"]);
    expect(connectionFields(true, undefined)).toStrictEqual([]);
  });

  it("joins the cookies of an HTTP/2 request", () => {
    expect(firstValue(forGuest([":method", "GET", "cookie", "a=1", "cookie", "b=2"]), "cookie")).toBe("a=1; b=2");
  });

  it("never lets a connection's own field through, whatever the request", () => {
    const name = fc.oneof(
      fc.constantFrom("Connection", "te", "Transfer-Encoding", "X-API-KEY", "Host", "Upgrade", "X-Secret", "Forwarded"),
      fc.stringMatching(/^[A-Za-z-]{1,12}$/),
    );
    fc.assert(
      fc.property(fc.array(fc.tuple(name, fc.constantFrom("x-secret", "close", "1"))), (pairs) => {
        const raw = pairs.flat();
        const names = forGuest(raw)
          .filter((_, i) => i % 2 === 0)
          .map((field) => field.toLowerCase());
        for (const banned of ["transfer-encoding", "x-api-key", "upgrade", "forwarded"]) {
          expect(names).not.toContain(banned);
        }
        expect(names.filter((field) => field === "host" || field === "connection")).toHaveLength(2);
        if (pairs.some(([field, value]) => field.toLowerCase() === "connection" && value === "x-secret")) {
          expect(names).not.toContain("x-secret");
        }
      }),
    );
  });
});

describe("headers for the client", () => {
  it("drops what concerns the guest's connection and keeps duplicates", () => {
    const raw = [
      "Set-Cookie",
      "a",
      "Connection",
      "x-hop",
      "X-Hop",
      "1",
      "set-cookie",
      "b",
      "Transfer-Encoding",
      "chunked",
    ];
    expect(clientResponseHeaders(raw, 200)).toStrictEqual(["Set-Cookie", "a", "set-cookie", "b"]);
  });

  it.each([
    [103, false],
    [200, true],
    [204, false],
    [206, true],
    [304, true],
    [502, true],
  ])("knows a length where %i may have one: %j", (status, kept) => {
    expect(clientResponseHeaders(["A", "b", "Content-Length", "5"], status)).toStrictEqual(
      kept ? ["A", "b", "Content-Length", "5"] : ["A", "b"],
    );
  });

  it("announces trailers where a body may have them", () => {
    expect(clientResponseHeaders(["Trailer", "X-Sum"], 200)).toStrictEqual(["Trailer", "X-Sum"]);
    expect(clientResponseHeaders(["Trailer", "X-Sum", "Content-Length", "1"], 200)).toStrictEqual([
      "Content-Length",
      "1",
    ]);
  });

  it.each([
    ["application/connect+json", true],
    ["application/connect+proto", true],
    ["text/event-stream; charset=utf-8", true],
    ["application/json", false],
  ])("asks proxies in front not to hold back %s: %j", (type, asked) => {
    expect(firstValue(clientResponseHeaders(["Content-Type", type], 200), "x-accel-buffering")).toBe(
      asked ? "no" : undefined,
    );
  });

  it("keeps the guest's own word on buffering", () => {
    const raw = ["Content-Type", "text/event-stream", "X-Accel-Buffering", "yes"];
    expect(clientResponseHeaders(raw, 200)).toStrictEqual(raw);
  });

  it("passes the protocol of a switch on", () => {
    const raw = ["Upgrade", "websocket", "Connection", "Upgrade", "Sec-WebSocket-Accept", "x"];
    expect(switchHeaders(raw)).toStrictEqual([
      "Sec-WebSocket-Accept",
      "x",
      "Connection",
      "Upgrade",
      "Upgrade",
      "websocket",
    ]);
  });
});

it("lets no trailer change what was decided before the body", () => {
  const raw = ["X-Sum", "1", "Content-Length", "5", "host", "x", "X-Access-Token", "t", "Transfer-Encoding", "chunked"];
  expect(passableTrailers(raw)).toStrictEqual(["X-Sum", "1"]);
});

it("takes a head of nothing but one field, repeated, in time", () => {
  const values = Array.from({ length: 100_000 }, (_one, at) => String(at));
  expect(http2Fields(values.flatMap((one) => ["a", one]))["a"]).toStrictEqual(values);
});

it("gives HTTP/2 one value where it takes one, and all of them elsewhere", () => {
  expect({
    ...http2Fields(["Set-Cookie", "a", "Content-Type", "x", "set-cookie", "b", "content-type", "y"]),
  }).toStrictEqual({
    "set-cookie": ["a", "b"],
    "content-type": "x",
  });
});
