import { once } from "node:events";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { duplexPair } from "node:stream";
import { buffer } from "node:stream/consumers";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readPlainRequest } from "./plain-request.ts";

const bytes = (text: string): Buffer => Buffer.from(text, "latin1");
const HOST = "Host: a\r\n";

describe("a plain request", () => {
  it.each([
    ["without a body", `GET /a?b#c HTTP/1.1\r\n${HOST}\r\n`, "GET /a?b#c", "none", ""],
    ["with its body", `POST / HTTP/1.1\r\n${HOST}content-length: 3\r\n\r\na\0\xff`, "POST /", "3", "a\0\xff"],
    ["with an empty one", `PUT / HTTP/1.1\r\nContent-Length: 0\r\n${HOST}\r\n`, "PUT /", "0", ""],
    [
      "that says that its connection stays",
      `HEAD / HTTP/1.1\r\n${HOST}Connection: Keep-Alive\r\n\r\n`,
      "HEAD /",
      "none",
      "",
    ],
  ])("%s", (_what, text, line, length, body) => {
    const read = readPlainRequest(bytes(text));
    expect(`${read?.method} ${read?.target}`).toBe(line);
    expect(read?.framing.kind === "length" ? read.framing.length : read?.framing.kind).toBe(length);
    expect(read?.body.toString("latin1")).toBe(body);
    expect(read?.authority).toBe("a");
  });

  it("keeps its fields as they were written, without the blanks around values", () => {
    const read = readPlainRequest(bytes("GET / HTTP/1.1\r\nhOst:a\r\nX-y: \t b c \t\r\nx-Y:\r\nZ: \xe9\r\n\r\n"));
    expect(read?.headers).toEqual(["hOst", "a", "X-y", "b c", "x-Y", "", "Z", "\xe9"]);
  });

  it.each([
    ["an unfinished head", `GET / HTTP/1.1\r\n${HOST}`],
    ["an unfinished body", `POST / HTTP/1.1\r\n${HOST}Content-Length: 3\r\n\r\nab`],
    ["another one behind it", `GET / HTTP/1.1\r\n${HOST}\r\nGET / HTTP/1.1\r\n${HOST}\r\n`],
    ["bytes behind its body", `POST / HTTP/1.1\r\n${HOST}Content-Length: 1\r\n\r\nab`],
    ["HTTP/1.0", `GET / HTTP/1.0\r\n${HOST}\r\n`],
    ["an absolute target", `GET http://a/ HTTP/1.1\r\n${HOST}\r\n`],
    ["a target with a blank", `GET /a b HTTP/1.1\r\n${HOST}\r\n`],
    ["a target beyond ASCII", `GET /\xe9 HTTP/1.1\r\n${HOST}\r\n`],
    ["another method", `CONNECT / HTTP/1.1\r\n${HOST}\r\n`],
    ["a method in lower case", `get / HTTP/1.1\r\n${HOST}\r\n`],
    ["an empty line in front", `\r\nGET / HTTP/1.1\r\n${HOST}\r\n`],
    ["no host", "GET / HTTP/1.1\r\nA: b\r\n\r\n"],
    ["no field at all", "GET / HTTP/1.1\r\n\r\n"],
    ["two hosts", `GET / HTTP/1.1\r\n${HOST}${HOST}\r\n`],
    ["two lengths", `POST / HTTP/1.1\r\n${HOST}Content-Length: 1\r\nContent-Length: 1\r\n\r\na`],
    ["a list of lengths", `POST / HTTP/1.1\r\n${HOST}Content-Length: 1, 1\r\n\r\na`],
    ["a length with a sign", `POST / HTTP/1.1\r\n${HOST}Content-Length: +1\r\n\r\na`],
    ["a length in hex", `POST / HTTP/1.1\r\n${HOST}Content-Length: 0x1\r\n\r\na`],
    ["a length with zeros", `POST / HTTP/1.1\r\n${HOST}Content-Length: 01\r\n\r\na`],
    ["an empty length", `POST / HTTP/1.1\r\n${HOST}Content-Length:\r\n\r\n`],
    ["a transfer encoding", `POST / HTTP/1.1\r\n${HOST}transfer-encoding: identity\r\n\r\n`],
    ["an expectation", `GET / HTTP/1.1\r\n${HOST}eXpect: 100-continue\r\n\r\n`],
    ["another protocol", `GET / HTTP/1.1\r\n${HOST}Upgrade: x\r\n\r\n`],
    ["a connection that closes", `GET / HTTP/1.1\r\n${HOST}Connection: close\r\n\r\n`],
    [
      "a connection that closes, in the words of old clients",
      `GET / HTTP/1.1\r\n${HOST}Proxy-Connection: close\r\n\r\n`,
    ],
    ["a connection with fields of its own", `GET / HTTP/1.1\r\n${HOST}Connection: keep-alive, x-secret\r\n\r\n`],
    ["a blank before a colon", `GET / HTTP/1.1\r\n${HOST}Content-Length : 0\r\n\r\n`],
    ["a field without a name", `GET / HTTP/1.1\r\n${HOST}: b\r\n\r\n`],
    ["a field without a colon", `GET / HTTP/1.1\r\n${HOST}b\r\n\r\n`],
    ["a folded field", `GET / HTTP/1.1\r\n${HOST}A: b\r\n c\r\n\r\n`],
    ["a line that ends in a line feed alone", `GET / HTTP/1.1\n${HOST}\r\n`],
    ["a field that ends in a line feed alone", `GET / HTTP/1.1\r\n${HOST}A: b\nC: d\r\n\r\n`],
    ["a carriage return in a field", `GET / HTTP/1.1\r\n${HOST}A: b\rC: d\r\n\r\n`],
    ["a NUL in a field", `GET / HTTP/1.1\r\n${HOST}A: b\0\r\n\r\n`],
  ])("is not one with %s", (_what, text) => {
    expect(readPlainRequest(bytes(text))).toBeUndefined();
  });
});

/** What Node's own parser makes of bytes: one request, or nothing. */
async function readByNode(input: Buffer): Promise<unknown> {
  const server = createServer();
  const [ours, theirs] = duplexPair();
  ours.on("error", () => undefined);
  theirs.on("error", () => undefined);
  const answered = Promise.race([
    once(server, "request") as Promise<[IncomingMessage, ServerResponse]>,
    once(server, "clientError").then(() => undefined),
  ]);
  server.emit("connection", theirs);
  ours.write(input);
  const got = await answered;
  if (got === undefined) {
    return undefined;
  }
  const [request, { shouldKeepAlive }] = got;
  const body = await buffer(request);
  ours.destroy();
  theirs.destroy();
  const { method, url: target, rawHeaders: headers } = request;
  return { method, target, headers, body: body.toString("latin1"), shouldKeepAlive };
}

/** Everything that can be seen, the question mark and the number sign included. */
const VISIBLE = Array.from({ length: 0x7f - 0x21 }, (_, index) => String.fromCharCode(0x21 + index));

it("is read as Node's own parser reads it, whatever it looks like", async () => {
  const field = fc.oneof(
    fc.constantFrom(
      "Host: a",
      "hOST:\tb ",
      "Content-Length: 2",
      "content-length: 0",
      "X: \xff",
      "Connection: keep-alive",
      "Proxy-Connection: Keep-Alive",
    ),
    fc
      .tuple(
        fc.constantFrom("Connection", "Proxy-Connection", "Keep-Alive", "TE", "Trailer", "HTTP2-Settings", "Upgrade"),
        fc.constantFrom("close", "keep-alive", "x", "keep-alive, close", "Upgrade", ""),
      )
      .map((pair) => pair.join(":")),
    fc
      .tuple(fc.string({ minLength: 1, maxLength: 5 }), fc.string({ maxLength: 8, unit: "binary-ascii" }))
      .map((pair) => pair.join(":")),
  );
  const request = fc.record({
    line: fc
      .tuple(fc.constantFrom("GET", "POST", "DELETE"), fc.array(fc.constantFrom(...VISIBLE), { maxLength: 12 }))
      .map(([method, target]) => `${method} /${target.join("")} HTTP/1.1`),
    fields: fc.array(field, { maxLength: 5 }),
    body: fc.constantFrom("", "ab"),
  });
  let plain = 0;
  await fc.assert(
    fc.asyncProperty(request, async ({ line, fields, body }) => {
      const input = bytes(`${[line, "Host: x", ...fields].join("\r\n")}\r\n\r\n${body}`);
      const read = readPlainRequest(input);
      if (read !== undefined) {
        plain += 1;
        const { method, target, headers } = read;
        const seen = { method, target, headers, body: read.body.toString("latin1"), shouldKeepAlive: true };
        expect(await readByNode(input)).toEqual(seen);
      }
    }),
    { numRuns: 1500 },
  );
  expect(plain).toBeGreaterThan(100);
});
