import type { ServerResponse } from "node:http";
import { afterAll, beforeAll, expect, it } from "vitest";
import { DOMAIN, httpGuest, rawClient, requestHead, startProxy } from "./testing/fixtures.ts";
import type { Guest, RunningProxy } from "./testing/fixtures.ts";
import { ScriptedStore } from "./testing/scripted-store.ts";

const TOKEN = "X-Access-Token: token-of-sb_a";

/** What the guest answers, by path. */
const ANSWERS: Readonly<Record<string, (response: ServerResponse) => void>> = {
  "/sized": (response) => response.writeHead(200, "Fine", { "Content-Length": "5", "X-A": ["b", "c"] }).end("hello"),
  "/nothing": (response) => response.writeHead(200, { "Content-Length": "0" }).end(),
  "/chunked": (response) => response.writeHead(201, { "Transfer-Encoding": "chunked" }).end("hello"),
  "/no-chunk": (response) => response.writeHead(200, { "Transfer-Encoding": "chunked" }).end(),
  "/to-the-end": (response) => {
    response.useChunkedEncodingByDefault = false;
    response.writeHead(200, { Connection: "close" }).end("hello");
  },
  "/204": (response) => response.writeHead(204).end(),
  "/205": (response) => response.writeHead(205, { "Content-Length": "0" }).end(),
  "/304": (response) => response.writeHead(304, { ETag: '"a"', "Content-Length": "7" }).end(),
  "/500": (response) => response.writeHead(500).end("sorry"),
  "/599": (response) => response.writeHead(599).end("odd"),
  "/early-hints": (response) => {
    response.writeEarlyHints({ link: "</a.css>; rel=preload" });
    response.writeHead(200, { "Content-Length": "1" }).end("a");
  },
  "/trailers": (response) => {
    response.writeHead(200, { Trailer: "X-Sum" });
    response.write("hello");
    response.addTrailers({ "X-Sum": "5" });
    response.end();
  },
  "/connect": (response) => response.writeHead(200, { "Content-Type": "application/connect+json" }).end("{}"),
  "/large": (response) => response.end("x".repeat(300_000)),
  "/hop-by-hop": (response) =>
    response.writeHead(200, { Connection: "keep-alive, x-own", "X-Own": "1", "Keep-Alive": "timeout=9" }).end("a"),
  "/broken": (response) => {
    response.sendDate = false;
    response.socket?.end("nonsense\r\n\r\n");
  },
};

let guest: Guest | undefined;
let proxy: RunningProxy | undefined;
beforeAll(async () => {
  guest = await httpGuest((request, response) => {
    response.sendDate = false;
    request.resume().once("end", () => ANSWERS[request.url ?? ""]?.(response));
  });
  const store = new ScriptedStore();
  store.put("sb_a", { ports: { 49983: guest.port } });
  proxy = await startProxy({ store });
});
afterAll(async () => {
  await proxy?.stop();
  await guest?.[Symbol.asyncDispose]();
});

const PREFLIGHT = ["Origin: https://a.example", "Access-Control-Request-Method: PUT"];

const CASES: readonly (readonly [string, string])[] = [
  ...["GET", "HEAD"].flatMap((method) =>
    Object.keys(ANSWERS)
      // Node announces no trailers where no body can have them.
      .filter((path) => method === "GET" || path !== "/trailers")
      .map((path) => [`${method} ${path}`, requestHead(`${method} ${path}`, [TOKEN])] as const),
  ),
  ["a post", `${requestHead("POST /sized", [TOKEN, "Content-Length: 3"])}abc`],
  ["a post of nothing", requestHead("POST /chunked", [TOKEN, "Content-Length: 0"])],
  ["a health probe", requestHead("GET /healthz")],
  ["a health probe for the head alone", requestHead("HEAD /healthz")],
  ["a question about readiness", requestHead("GET /readyz", [], "other.example.com")],
  ["a preflight", requestHead("OPTIONS /sized", [...PREFLIGHT, "Access-Control-Request-Headers: x-access-token"])],
  ["no token", requestHead("GET /sized", ["Origin: https://a.example"])],
  ["no token, for the head alone", requestHead("HEAD /sized")],
  ["another token", requestHead("GET /sized", ["X-Access-Token: no"])],
  ["no sandbox", requestHead("GET /sized", [TOKEN], "other.example.com")],
  ["a sandbox that is gone", requestHead("GET /sized", [TOKEN], `49983-sb-gone.${DOMAIN}`)],
  ["a port that nobody listens at", requestHead("GET /sized", [TOKEN], `3000-sb-a.${DOMAIN}`)],
  ["an internal path", requestHead("POST /init", [TOKEN, "Content-Length: 0"])],
];

it.each(CASES)("is answered as by Node's server, and keeps the connection as it does: %s", async (_what, request) => {
  const texts = await Promise.all(
    // An empty line in front is nothing to Node's parser, and no part of a plain request.
    ["", "\r\n"].map(async (front) => {
      using client = rawClient(proxy?.port ?? 0, front + request);
      // A health probe behind it, in a packet of its own, once the answer is there.
      await client.until("\r\n\r\n");
      client.socket.write(requestHead("GET /healthz", ["Connection: close"]));
      return (await client.ended()).text;
    }),
  );
  expect(texts[0]).toContain("HTTP/1.1 204 No Content\r\nConnection: close\r\n");
  expect(texts[0]).toBe(texts[1]);
});
