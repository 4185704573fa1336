import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { DOMAIN, eventually, httpGuest, rawClient, startProxy } from "./testing/fixtures.ts";
import type { Guest, RunningProxy } from "./testing/fixtures.ts";
import { ScriptedStore } from "./testing/scripted-store.ts";

const HOST = `Host: 49983-sb-a.${DOMAIN}\r\nX-Access-Token: token-of-sb_a\r\n`;
const CLOSE = "Connection: close\r\n";
const body = (text: string): string => `Content-Length: ${text.length}\r\n\r\n${text}`;
const served = (path: string, headers = ""): string => `POST ${path} HTTP/1.1\r\n${HOST}${headers}${body("abc")}`;
/** A request without a body, of the kind that most are. */
const asked = (path: string, headers = ""): string => `GET ${path} HTTP/1.1\r\n${HOST}${headers}\r\n`;
const chunked = (path: string): string => `POST ${path} HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n`;
const SWITCH = "Connection: Upgrade\r\nUpgrade: x\r\n";
const NEXT = served("/next");

interface Scene extends AsyncDisposable {
  readonly guest: Guest;
  readonly proxy: RunningProxy;
  /** Paths that the guest has seen whole. */
  readonly seen: string[];
}

/**
 * A guest that takes its time: `/slow` answers after what stands behind it has arrived, `/slower` after a head may have
 * taken too long, `/stream` sends its head at once and the rest later, `/never` does not answer.
 */
async function scene(headTimeoutMs?: number): Promise<Scene> {
  const seen: string[] = [];
  const guest = await httpGuest((request, response) => {
    const path = request.url ?? "";
    request.resume().once("end", () => {
      seen.push(path);
      if (path === "/quick") {
        response.end(path);
      } else if (path !== "/never") {
        response.setHeader("Content-Length", path.length);
        if (path === "/stream") {
          response.write("/");
        }
        setTimeout(() => response.end(path.slice(path === "/stream" ? 1 : 0)), path === "/slower" ? 800 : 60);
      }
    });
  });
  const store = new ScriptedStore();
  store.put("sb_a", { ports: { 49983: guest.port } });
  const proxy = await startProxy({ store }, headTimeoutMs === undefined ? {} : { headTimeoutMs });
  return {
    guest,
    proxy,
    seen,
    [Symbol.asyncDispose]: async () => {
      await proxy.stop();
      await guest[Symbol.asyncDispose]();
    },
  };
}

/** Status and body of every answer; a body that is not whole ends in an ellipsis. */
function answersIn(text: string): string[] {
  return text
    .split(/(?=HTTP\/1\.1 \d)/)
    .filter((answer) => answer !== "")
    .map((answer) => {
      const [head = "", rest = ""] = answer.split("\r\n\r\n");
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1]);
      const shown = rest.startsWith("{") ? "error" : rest;
      return `${head.split(" ")[1]} ${shown}${rest.length < length ? "…" : ""}`;
    });
}

const GARBAGE = "\0\x01\x02 no request at all\r\n\r\n";

describe("what was carried out is answered as what it was", () => {
  it.each([
    ["another one behind a closing request", served("/slow", CLOSE) + NEXT, ["200 /slow"]],
    ["garbage behind a closing request", served("/slow", CLOSE) + GARBAGE, ["200 /slow"]],
    ["CONNECT behind a closing request", `${served("/slow", CLOSE)}CONNECT a:1 HTTP/1.1\r\n\r\n`, ["200 /slow"]],
    ["another one behind HTTP/1.0", served("/slow").replace("HTTP/1.1", "HTTP/1.0") + NEXT, ["200 /slow"]],
    ["another one behind a closing stream", served("/stream", CLOSE) + NEXT, ["200 /stream"]],
    ["garbage", served("/slow") + GARBAGE, ["200 /slow", "400 error"]],
    ["garbage behind a stream", served("/stream") + GARBAGE, ["200 /stream", "400 error"]],
    ["garbage behind an answer that is out", served("/quick") + GARBAGE, ["200 /quick", "400 error"]],
    ["a head that is too large", `${served("/slow")}GET /${"x".repeat(1 << 20)}`, ["200 /slow", "431 error"]],
    ["a second body that breaks", `${served("/slow")}${chunked("/next")}zz\r\n`, ["200 /slow", "400 error"]],
    ["CONNECT", `${served("/slow")}CONNECT a:1 HTTP/1.1\r\n\r\n`, ["200 /slow", "400 error"]],
    ["a switch", `${served("/slow")}GET /ws HTTP/1.1\r\n${HOST}${SWITCH}\r\n`, ["200 /slow", "400 error"]],
    [
      "garbage behind several",
      served("/slow") + served("/stream") + served("/quick") + GARBAGE,
      ["200 /slow", "200 /stream", "200 /quick", "400 error"],
    ],
    [
      "another one behind several of which the last closes",
      served("/slow") + served("/stream") + served("/quick", CLOSE) + NEXT,
      ["200 /slow", "200 /stream", "200 /quick"],
    ],
    ["another one behind a closing GET", asked("/slow", CLOSE) + NEXT, ["200 /slow"]],
    ["garbage behind a closing GET", asked("/slow", CLOSE) + GARBAGE, ["200 /slow"]],
    ["garbage behind a GET", asked("/slow") + GARBAGE, ["200 /slow", "400 error"]],
    ["garbage behind a stream of a GET", asked("/stream") + GARBAGE, ["200 /stream", "400 error"]],
    [
      "a head that is too large behind a GET",
      `${asked("/slow")}GET /${"x".repeat(1 << 20)}`,
      ["200 /slow", "431 error"],
    ],
    ["CONNECT behind a GET", `${asked("/slow")}CONNECT a:1 HTTP/1.1\r\n\r\n`, ["200 /slow", "400 error"]],
    ["a switch behind a GET", `${asked("/slow")}GET /ws HTTP/1.1\r\n${HOST}${SWITCH}\r\n`, ["200 /slow", "400 error"]],
    [
      "garbage behind several GETs",
      asked("/slow") + asked("/stream") + asked("/quick") + GARBAGE,
      ["200 /slow", "200 /stream", "200 /quick", "400 error"],
    ],
  ])("%s", async (_what, bytes, answers) => {
    await using run = await scene();
    for (const split of [false, true]) {
      using client = rawClient(run.proxy.port, split ? "" : bytes);
      // In two packets, of which the second comes while the first request is served.
      const at = bytes.indexOf("\r\n\r\n") + (bytes.startsWith("GET") ? 4 : 7);
      if (split) {
        client.socket.write(bytes.slice(0, at), "latin1");
        await delay(15);
        client.socket.write(bytes.slice(at), "latin1");
      }
      const { text, clean } = await client.ended();
      expect(answersIn(text)).toEqual(answers);
      expect(clean).toBe(true);
    }
    expect(run.seen.filter((path) => path === "/next" || path === "/ws")).toEqual([]);
  });

  it.each([
    ["behind an answer that takes longer than it", "/slower", ["200 /slower", "408 error"]],
    ["behind a stream", "/stream", ["200 /stream", "408 error"]],
  ])("a head that does not come to its end, %s", async (_what, path, answers) => {
    await using run = await scene(300);
    for (const request of [served(path), asked(path)]) {
      using client = rawClient(run.proxy.port, `${request}GET /next HTTP/1.1\r\n`);
      const { text, clean } = await client.ended();
      expect(answersIn(text)).toEqual(answers);
      expect(clean).toBe(true);
    }
  });
});

describe("a body that breaks", () => {
  it("is what its own request is refused for", async () => {
    await using run = await scene();
    using client = rawClient(run.proxy.port, `${chunked("/slow")}3\r\nabc\r\nzz\r\n`);
    expect(answersIn((await client.ended()).text)).toEqual(["400 error"]);
    expect(run.seen).toEqual([]);
  });

  it("has no second answer when its request was answered before", async () => {
    await using run = await scene();
    using client = rawClient(run.proxy.port, chunked("/slow").replace(/X-Access-Token: .*\r\n/, ""));
    await client.until("missing X-Access-Token");
    client.socket.write("zz\r\n");
    expect(answersIn((await client.ended()).text)).toEqual(["401 error"]);
  });
});

it("bytes without end behind a request do not pile up, and the connection ends behind its answer", async () => {
  await using run = await scene();
  using client = rawClient(run.proxy.port, served("/slow") + GARBAGE);
  const timer = setInterval(() => client.socket.write(GARBAGE), 1);
  const { text } = await client.ended();
  clearInterval(timer);
  expect(answersIn(text)).toEqual(["200 /slow", "400 error"]);
  client.socket.destroy();
  await eventually("the relay closes", () => run.proxy.store.relays.size === 0);
});

it.each([
  ["garbage", GARBAGE],
  ["CONNECT", "CONNECT a:1 HTTP/1.1\r\n\r\n"],
  ["a switch", `GET /ws HTTP/1.1\r\n${HOST}${SWITCH}\r\n`],
  ["half a head", "GET /next HTTP/1.1\r\n"],
])("a client that leaves while its requests are served leaves nothing behind: %s", async (_what, rest) => {
  await using run = await scene();
  for (const leave of ["end", "resetAndDestroy"] as const) {
    const request = leave === "end" ? served("/never") : asked("/never");
    using client = rawClient(run.proxy.port, request + request + rest);
    await eventually("the guest has both", () => run.seen.length === 2);
    client.socket[leave]();
    await eventually("the relays close", () => run.proxy.store.relays.size === 0);
    await eventually("the guest sees it", () => run.guest.sockets.size === 0);
    run.seen.length = 0;
  }
});

it.each(["destroy", "resetAndDestroy"] as const)(
  "a client that leaves with more behind its request than is read leaves nothing behind: %s",
  async (leave) => {
    await using run = await scene();
    using client = rawClient(run.proxy.port, asked("/never"));
    await eventually("the guest has it", () => run.seen.length === 1);
    client.socket.write(served("/next").replace(body("abc"), body("x".repeat(200_000))));
    await delay(100);
    client.socket[leave]();
    await eventually("the relay closes", () => run.proxy.store.relays.size === 0);
    expect(run.seen).toEqual(["/never"]);
  },
);
