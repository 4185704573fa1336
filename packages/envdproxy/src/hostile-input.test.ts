import { PassThrough } from "node:stream";
import * as fc from "fast-check";
import { sandboxHost } from "@org/sandbox-address";
import { describe, expect, it } from "vitest";
import { clientResponseHeaders, guestRequestHeaders, passableTrailers } from "./forward-headers.ts";
import type { GuestRequest } from "./guest-leg.ts";
import { requestHttp1 } from "./guest-http1.ts";
import { GuestRelay } from "./guest-relay.ts";
import { count, firstValue } from "./raw-headers.ts";
import { BrokenAnswer, ResponseParser } from "./response-parser.ts";
import { isInternalPath, parseRoute, parseTarget } from "./route.ts";

const TOKEN_CHARACTERS = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ".split("");
const VALUE_CHARACTERS = Array.from({ length: 0x100 }, (_one, code) => String.fromCharCode(code)).filter((character) =>
  /[\t\x20-\x7e\x80-\xff]/.test(character),
);
const name = fc.string({ unit: fc.constantFrom(...TOKEN_CHARACTERS), minLength: 1, maxLength: 12 });
const value = fc.string({ unit: fc.constantFrom(...VALUE_CHARACTERS), maxLength: 20 }).map((text) => text.trim());
const framing = /^(?:content-length|transfer-encoding)$/i;
const field = fc.tuple(name, value).filter(([one]) => !framing.test(one));
const fields = fc.array(field, { maxLength: 6 });
const binary = fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes));

const lines = (pairs: readonly (readonly [string, string])[]): string =>
  pairs.map(([one, text]) => `${one}: ${text}\r\n`).join("");

/** A valid answer, with what must be read from it. */
const answer = fc
  .record({
    status: fc.integer({ min: 200, max: 599 }).filter((status) => status !== 204 && status !== 304),
    reason: value,
    fields,
    interim: fc.array(fc.integer({ min: 102, max: 199 }), { maxLength: 2 }),
    body: fc.array(
      binary.filter((piece) => piece.length > 0),
      { maxLength: 4 },
    ),
    chunked: fc.boolean(),
    extension: fc.constantFrom("", ";a", ";a=b", ' ; a="b c"'),
    trailers: fields,
    zeros: fc.integer({ min: 0, max: 3 }),
    lf: fc.constantFrom("\r\n", "\n"),
  })
  .map((made) => {
    const length = made.body.reduce((sum, piece) => sum + piece.length, 0);
    const framed = made.chunked ? "Transfer-Encoding: chunked\r\n" : `Content-Length: ${length}\r\n`;
    const interim = made.interim.map((status) => `HTTP/1.1 ${status} x\r\n\r\n`).join("");
    const head = `${interim}HTTP/1.1 ${made.status} ${made.reason}\r\n${lines(made.fields)}${framed}\r\n`;
    const parts: Buffer[] = [Buffer.from(head.replaceAll("\r\n", made.lf), "latin1")];
    for (const piece of made.body) {
      if (made.chunked) {
        parts.push(
          Buffer.from(`${"0".repeat(made.zeros)}${piece.length.toString(16)}${made.extension}${made.lf}`),
          piece,
        );
        parts.push(Buffer.from(made.lf));
      } else {
        parts.push(piece);
      }
    }
    if (made.chunked) {
      parts.push(Buffer.from(`0\r\n${lines(made.trailers)}\r\n`, "latin1"));
    }
    return { ...made, bytes: Buffer.concat(parts), whole: Buffer.concat(made.body) };
  });

interface Read {
  readonly informs: number[];
  status: number | undefined;
  headers: readonly string[];
  body: Buffer;
  trailers: readonly string[] | undefined;
  failed: boolean;
}

function pieces(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const at = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].toSorted((a, b) => a - b);
  return [0, ...at].map((from, index) => bytes.subarray(from, at[index] ?? bytes.length));
}

/** Feeds pieces, each in memory that is spoiled afterwards: nothing that was handed on may change by that. */
function readAll(fed: readonly Buffer[], method = "GET"): Read {
  const read: Read = {
    informs: [],
    status: undefined,
    headers: [],
    body: Buffer.alloc(0),
    trailers: undefined,
    failed: false,
  };
  const bodies: Buffer[] = [];
  const parser = new ResponseParser({
    method,
    upgrade: false,
    events: {
      onInform: (head) => read.informs.push(head.status),
      onSwitch: () => undefined,
      onHead: (head) => {
        read.status = head.status;
        read.headers = head.headers;
      },
      onBody: (piece) => bodies.push(Buffer.from(piece)),
      onFinish: (trailers) => (read.trailers = trailers),
    },
  });
  try {
    for (const piece of fed) {
      const own = Buffer.from(piece);
      parser.feed(own);
      own.fill(0x78);
    }
  } catch (error) {
    if (!(error instanceof BrokenAnswer)) {
      throw error;
    }
    read.failed = true;
  }
  read.body = Buffer.concat(bodies);
  return read;
}

const cuts = fc.array(fc.nat(), { maxLength: 12 });

describe("a guest's answer", () => {
  it("reads alike however its bytes are cut, and as what it is", () => {
    fc.assert(
      fc.property(answer, cuts, (made, at) => {
        const read = readAll(pieces(made.bytes, at));
        expect(read).toEqual(readAll([made.bytes]));
        expect(read.failed).toBe(false);
        expect(read.status).toBe(made.status);
        expect(read.informs).toEqual(made.interim);
        expect(read.body.equals(made.whole)).toBe(true);
        expect(read.headers.slice(0, made.fields.length * 2)).toEqual(made.fields.flat());
        expect(read.trailers).toEqual(made.chunked ? made.trailers.flat() : []);
      }),
      { numRuns: 150 },
    );
  });

  it("is never complete when its end is missing", () => {
    fc.assert(
      fc.property(answer, fc.nat(), (made, cut) => {
        const kept = cut % made.bytes.length;
        fc.pre(made.chunked || made.whole.length > 0);
        expect(readAll([made.bytes.subarray(0, kept)]).trailers).toBeUndefined();
      }),
      { numRuns: 150 },
    );
  });

  it("that is damaged is refused or read, alike however it is cut, and nothing else is thrown", () => {
    const damage = fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(answer, damage, cuts, (made, spots, at) => {
        const bytes = Buffer.from(made.bytes);
        for (const [where, byte] of spots) {
          bytes[where % bytes.length] = byte;
        }
        const whole = readAll([bytes]);
        const cut = readAll(pieces(bytes, at));
        expect([cut.failed, cut.status, cut.trailers]).toEqual([whole.failed, whole.status, whole.trailers]);
        // What was read before the damage was found may have been handed on.
        expect(whole.failed || cut.body.equals(whole.body)).toBe(true);
      }),
      { numRuns: 250 },
    );
  });

  it("that is any bytes at all ends the exchange at most once, and throws nothing", async () => {
    const request: GuestRequest = {
      method: "GET",
      path: "/",
      authority: "a",
      headers: ["Host", "a"],
      empty: true,
      chunked: false,
      upgrade: false,
    };
    const noise = fc.oneof(
      fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
      answer.map((made) => made.bytes),
    );
    await fc.assert(
      fc.asyncProperty(noise, cuts, async (bytes, at) => {
        const relay = new PassThrough();
        // Only the guest's side of the relay is of interest here.
        relay.write = () => true;
        const told: string[] = [];
        requestHttp1(new GuestRelay(relay), request, {
          onInform: () => undefined,
          onWhole: () => told.push("whole"),
          onResponse: (response) => {
            told.push("response");
            response.body.resume();
          },
          onSwitch: () => told.push("switch"),
          onFailure: () => told.push("failure"),
          onBroken: () => told.push("broken"),
        });
        for (const piece of pieces(bytes, at)) {
          relay.push(piece);
        }
        relay.push(null);
        await new Promise((resolve) => {
          setImmediate(() => setImmediate(resolve));
        });
        relay.destroy();
        await new Promise((resolve) => {
          setImmediate(resolve);
        });
        expect(["failure", "whole", "response", "response,broken"]).toContain(told.join(","));
      }),
      { numRuns: 200 },
    );
  });
});

const hostileField = fc.tuple(
  fc.oneof(
    name,
    fc.constantFrom(
      "Connection",
      "connection",
      "Transfer-Encoding",
      "Content-Length",
      "Host",
      "X-API-Key",
      "x-api-key",
      "TE",
      "X-Access-Token",
      "Upgrade",
      "Keep-Alive",
      "Proxy-Authorization",
      "Forwarded",
      "X-Forwarded-For",
      "Trailer",
      "HTTP2-Settings",
      "Expect",
      "Cookie",
      "Set-Cookie",
      "x-secret",
    ),
  ),
  fc.oneof(value, fc.constantFrom("close", "x-secret", "x-secret, keep-alive", "chunked", "trailers", "5")),
);

const ALWAYS_GONE = [
  "keep-alive",
  "proxy-authorization",
  "proxy-connection",
  "forwarded",
  "expect",
  "http2-settings",
  "x-api-key",
  "x-access-token",
];

describe("the headers of any request", () => {
  it("lose what is not the guest's to see, keep the rest in order, and name one host and one framing", () => {
    fc.assert(
      fc.property(
        fc.array(hostileField, { maxLength: 14 }),
        fc.constantFrom("none", "chunked", "length"),
        (raw, kind) => {
          const flat = raw.flat();
          const out = guestRequestHeaders({
            raw: flat,
            host: "h",
            framing: kind === "length" ? { kind, length: "7" } : { kind },
            method: "POST",
            peer: "192.0.2.1",
            inboundAuthority: "in",
            secure: false,
            stripAccessToken: true,
          });
          for (const gone of ALWAYS_GONE) {
            expect(count(out, gone)).toBe(0);
          }
          const named = new Set(
            raw
              .filter(([one]) => one.toLowerCase() === "connection")
              .flatMap(([, text]) => text.split(",").map((word) => word.trim().toLowerCase())),
          );
          for (const one of ["x-secret", "cookie"]) {
            expect(named.has(one) && count(out, one) > 0).toBe(false);
          }
          for (const single of ["host", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"]) {
            expect(count(out, single)).toBe(1);
          }
          expect(count(out, "connection")).toBeLessThan(2);
          expect(count(out, "content-length") + count(out, "transfer-encoding")).toBe(1);
          expect(firstValue(out, "host")).toBe("h");
          const known = new Set(out.filter((_one, index) => index % 2 === 0).map((one) => one.toLowerCase()));
          const kept = raw.filter(([one]) => /^x-[a-z]*secret$/.test(one) && known.has(one));
          const passed = out.filter((_one, index) => index % 2 === 1 && out[index - 1] === "x-secret");
          expect(passed).toEqual(kept.map(([, text]) => text));
        },
      ),
      { numRuns: 200 },
    );
  });

  it("and of any answer and any trailers never frame the client's message", () => {
    fc.assert(
      fc.property(fc.array(hostileField, { maxLength: 14 }), fc.integer({ min: 200, max: 599 }), (raw, status) => {
        const flat = raw.flat();
        for (const gone of ["connection", "keep-alive", "transfer-encoding", "upgrade", "te"]) {
          expect(count(clientResponseHeaders(flat, status), gone)).toBe(0);
          expect(count(passableTrailers(flat), gone)).toBe(0);
        }
        for (const gone of ["content-length", "host", "x-api-key", "x-access-token", "cookie"]) {
          expect(count(passableTrailers(flat), gone)).toBe(0);
        }
      }),
      { numRuns: 150 },
    );
  });
});

describe("the route of any request", () => {
  const text = fc.oneof(
    fc.string({ unit: "binary", maxLength: 60 }),
    fc.string({ unit: fc.constantFrom(...VALUE_CHARACTERS), maxLength: 60 }),
  );

  it("is found or not, and nothing is thrown, for any target, host and headers", () => {
    fc.assert(
      fc.property(text, text, text, text, (target, authority, id, port) => {
        const parsed = parseTarget(target);
        if (parsed !== undefined) {
          expect(parsed.raw.startsWith("/")).toBe(true);
          isInternalPath(parsed.path);
        }
        const route = parseRoute(["E2b-Sandbox-Id", id, "E2b-Sandbox-Port", port], authority, "example.com");
        if (route !== undefined) {
          expect(Number.isInteger(route.port) && route.port >= 1 && route.port <= 65_535).toBe(true);
          expect(route.id).not.toBe("");
        }
      }),
      { numRuns: 1_000 },
    );
  });

  it("is that of the host, whatever port and dot and capitals it has", () => {
    const label = fc.stringMatching(/^sb-[0-9a-f]{1,16}$/);
    const port = fc.integer({ min: 1, max: 65_535 });
    fc.assert(
      fc.property(label, port, fc.boolean(), fc.constantFrom("", ".", ":443", ".:8443"), (id, number, upper, tail) => {
        const host = sandboxHost(number, id, "example.com") + tail;
        expect(parseRoute([], upper ? host.toUpperCase() : host, "example.com")).toEqual({ port: number, id });
      }),
    );
  });

  it("takes an internal path for one in every spelling that a router may accept", () => {
    const internal = fc.constantFrom("init", "freeze", "unfreeze", "fsfreeze", "fsthaw", "collapse", "upgrade");
    const spelled = internal.chain((word) =>
      fc
        .tuple(
          fc.array(fc.constantFrom("/", "/./", "//", "/x/../", "/%2e/", "\\"), { minLength: 1, maxLength: 3 }),
          fc.array(fc.integer({ min: 0, max: 2 }), { minLength: word.length, maxLength: word.length }),
          fc.constantFrom("", "/", "//", "/.", "?x=y", "#x"),
        )
        .map(([before, how, after]) => {
          const letters = word.split("").map((letter, index) => {
            const escaped = `%${letter.charCodeAt(0).toString(16)}`;
            return [letter, letter.toUpperCase(), escaped][how[index] ?? 0] ?? letter;
          });
          return `/${before.join("")}${letters.join("")}${after}`;
        }),
    );
    fc.assert(
      fc.property(spelled, (target) => {
        expect(isInternalPath(parseTarget(target)?.path ?? "")).toBe(true);
      }),
      { numRuns: 250 },
    );
  });
});
