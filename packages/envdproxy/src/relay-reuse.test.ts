import { connect as connectHttp2 } from "node:http2";
import type { Socket } from "node:net";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DOMAIN, eventually, parseAnswer, rawClient, rawGuest, requestHead, startProxy } from "./testing/fixtures.ts";
import type { Guest, RunningProxy } from "./testing/fixtures.ts";
import type { ProxyOptions } from "./proxy.ts";
import { ScriptedStore } from "./testing/scripted-store.ts";

const TOKEN = "X-Access-Token: token-of-sb_a";
const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
/** Longer than any of these tests. */
const KEPT = 60_000;

/** What a guest got on one connection, request by request. */
type Heard = string[];

/** A guest whose answers are `answers`, one after the other on each connection; the last one goes on. */
async function scripted(
  answers: readonly (string | ((socket: Socket) => void))[],
): Promise<Guest & { readonly heard: Heard[] }> {
  const heard: Heard[] = [];
  const guest = await rawGuest((socket) => {
    const own: Heard = [];
    heard.push(own);
    socket.on("data", (chunk: Buffer) => {
      own.push(chunk.toString("latin1"));
      const answer = answers[Math.min(own.length, answers.length) - 1];
      if (typeof answer === "string") {
        socket.write(answer, "latin1");
      } else {
        answer?.(socket);
      }
    });
    socket.on("end", () => socket.end());
  });
  return { ...guest, heard };
}

interface Rig extends AsyncDisposable {
  readonly proxy: RunningProxy;
  readonly store: ScriptedStore;
  ask(
    line: string,
    headers?: readonly string[],
    body?: string,
  ): Promise<{ status: number; head: string; body: string }>;
}

async function proxyTo(guest: Guest, options: Partial<Omit<ProxyOptions, "store">> = {}): Promise<Rig> {
  const store = new ScriptedStore();
  store.put("sb_a", { ports: { 49983: guest.port, 3000: guest.port } });
  const proxy = await startProxy({ store, relayIdleMs: KEPT, ...options });
  return {
    proxy,
    store,
    async ask(line, headers = [], body = "") {
      using client = rawClient(proxy.port, requestHead(line, [TOKEN, "Connection: close", ...headers]) + body);
      return parseAnswer((await client.ended()).text);
    },
    [Symbol.asyncDispose]: () => proxy.stop(),
  };
}

describe("a relay that answered in full", () => {
  it("carries the next request to the same port", async () => {
    await using guest = await scripted([OK]);
    await using run = await proxyTo(guest);
    for (const [line, headers, body] of [
      ["GET /1", [], ""],
      ["POST /2", ["Content-Length: 4"], "body"],
      ["POST /3", ["Transfer-Encoding: chunked"], "4\r\nbody\r\n0\r\n\r\n"],
      ["DELETE /4", [], ""],
      ["PUT /5", ["Content-Length: 0"], ""],
    ] as const) {
      expect(await run.ask(line, headers, body)).toMatchObject({ status: 200, body: "ok" });
    }
    expect(run.store.count("dial")).toBe(1);
    expect(guest.heard).toHaveLength(1);
    expect(guest.heard.join("")).not.toMatch(/connection:/i);
    expect(run.proxy.handler.counters).toMatchObject({ relaysOpened: 1, relaysReused: 4, relaysOpen: 1 });
  });

  it("is closed once its time is up", async () => {
    await using guest = await scripted([OK]);
    await using run = await proxyTo(guest, { relayIdleMs: 20 });
    await run.ask("GET /");
    await eventually("the relay closes", () => run.store.relays.size === 0 && guest.sockets.size === 0);
    expect(run.proxy.handler.counters.dropped.counts.get("expired")).toBe(1);
  });

  it.each([
    ["the guest says so", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"],
    ["the guest says so among other things", "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nok"],
    ["the guest speaks HTTP/1.0", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok"],
    ["the guest keeps it for a second", "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\nok"],
    ["the guest takes no more", "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=60, max=0\r\nContent-Length: 2\r\n\r\nok"],
    ["bytes follow the answer", `${OK}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil`],
    ["bytes follow the last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nx"],
    ["an answer without a body has a length", "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n"],
  ])("is closed instead when %s", async (_why, answer) => {
    await using guest = await scripted([answer]);
    await using run = await proxyTo(guest);
    await run.ask("GET /");
    await eventually("the relay closes", () => run.store.relays.size === 0);
    await run.ask("GET /");
    expect(run.store.count("dial")).toBe(2);
  });

  it("is closed after a HEAD, since some servers send a body behind it", async () => {
    await using guest = await scripted(["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"]);
    await using run = await proxyTo(guest);
    await run.ask("HEAD /");
    await eventually("the relay closes", () => run.store.relays.size === 0);
  });

  it("is closed after an upgrade that the guest refused", async () => {
    await using guest = await scripted([OK]);
    await using run = await proxyTo(guest);
    using client = rawClient(run.proxy.port, requestHead("GET /", [TOKEN, "Connection: Upgrade", "Upgrade: x"]));
    await client.until("ok");
    await eventually("the relay closes", () => run.store.relays.size === 0);
  });

  it("is closed when an HTTP/2 client's body is not as long as it says", async () => {
    await using guest = await scripted([OK]);
    await using run = await proxyTo(guest);
    const session = connectHttp2(`http://127.0.0.1:${run.proxy.port}`);
    session.on("error", () => undefined);
    try {
      const stream = session.request({
        ":method": "POST",
        ":path": "/",
        ":authority": `49983-sb-a.${DOMAIN}`,
        "x-access-token": "token-of-sb_a",
        "content-length": "2",
      });
      stream.on("error", () => undefined);
      stream.resume();
      stream.end("much more than that");
      await new Promise((resolve) => stream.once("close", resolve));
      await eventually("the relay closes", () => run.store.relays.size === 0);
      expect(await run.ask("GET /")).toMatchObject({ status: 200, body: "ok" });
    } finally {
      session.destroy();
    }
  });

  it("is closed when the guest answered before it had read the request", async () => {
    await using guest = await scripted([OK]);
    await using run = await proxyTo(guest);
    using client = rawClient(run.proxy.port, `${requestHead("POST /", [TOKEN, "Content-Length: 9"])}body`);
    await client.until("ok");
    await eventually("the relay closes", () => run.store.relays.size === 0);
  });

  it("is closed when the guest speaks unasked later", async () => {
    let speak: () => void = () => undefined;
    await using guest = await scripted([
      (socket) => {
        socket.write(OK);
        speak = () => socket.write("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n");
      },
    ]);
    await using run = await proxyTo(guest);
    await run.ask("GET /");
    await eventually("the relay is kept", () => run.proxy.handler.counters.relaysIdle() === 1);
    speak();
    await eventually("the relay closes", () => run.store.relays.size === 0);
    expect(run.proxy.handler.counters.dropped.counts.get("spoke")).toBe(1);
    expect(await run.ask("GET /")).toMatchObject({ status: 200, body: "ok" });
  });

  it("is closed when the client leaves in the middle of the answer", async () => {
    await using guest = await scripted(["HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun"]);
    await using run = await proxyTo(guest);
    using client = rawClient(run.proxy.port, requestHead("GET /", [TOKEN]));
    await client.until("begun");
    client.socket.destroy();
    await eventually("the relay closes", () => run.store.relays.size === 0);
  });

  it("stays when the client leaves after it", async () => {
    await using guest = await scripted([OK]);
    await using run = await proxyTo(guest);
    for (let i = 0; i < 3; i += 1) {
      using client = rawClient(run.proxy.port, requestHead("GET /", [TOKEN]));
      await client.until("ok");
      client.socket.resetAndDestroy();
    }
    expect(run.store.count("dial")).toBe(1);
  });

  it("is not kept by a proxy that ends", async () => {
    await using guest = await scripted([OK]);
    const run = await proxyTo(guest);
    await run.ask("GET /");
    await run.proxy.stop();
    await eventually("the relay closes", () => run.store.relays.size === 0);
  });

  it.each([
    ["relays are not to be kept", "GET /", [], { relayIdleMs: 0 }, /connection: close/i],
    ["a probe asks", "GET /health", [], {}, /connection: close/i],
    ["an upgrade is asked for", "GET /", ["Connection: Upgrade", "Upgrade: x"], {}, /connection: upgrade/i],
  ] as const)("is not used when %s", async (_why, line, headers, options, connection) => {
    await using guest = await scripted([OK]);
    await using run = await proxyTo(guest, options);
    await run.ask("GET /");
    using client = rawClient(run.proxy.port, requestHead(line, [TOKEN, ...headers]));
    await client.until("ok");
    expect(run.store.count("dial")).toBe(2);
    expect(guest.heard.at(-1)?.join("")).toMatch(connection);
  });

  it("is not kept where the node judges tokens itself", async () => {
    await using guest = await scripted([OK]);
    await using run = await proxyTo(guest);
    run.store.put("sb_a", { token: undefined, ports: { 49983: guest.port } });
    for (let i = 0; i < 2; i += 1) {
      expect(await run.ask("GET /")).toMatchObject({ status: 200 });
    }
    expect(run.store.count("dial")).toBe(2);
    expect(run.proxy.handler.counters.relaysIdle()).toBe(0);
  });
});

describe("a guest that says more than it was asked", () => {
  it.each([
    ["behind an answer", (socket: Socket) => socket.write(`${OK}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil`)],
    [
      "later",
      (socket: Socket) => {
        socket.write(OK);
        setTimeout(() => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"), 5);
      },
    ],
  ])("%s is asked over a fresh relay each time from then on", async (_when, speak) => {
    await using guest = await scripted([
      (socket) => {
        if (guest.heard.length === 1) {
          speak(socket);
        } else {
          socket.write(OK);
        }
      },
    ]);
    await using run = await proxyTo(guest);
    await run.ask("GET /first");
    await eventually("the relay closes", () => run.store.relays.size === 0);
    for (let i = 0; i < 3; i += 1) {
      expect(await run.ask("GET /")).toMatchObject({ status: 200, body: "ok" });
    }
    expect(guest.heard.map((own) => own.length)).toStrictEqual([1, 1, 1, 1]);
  });

  it("keeps its other ports' relays", async () => {
    await using guest = await scripted([OK]);
    await using untidy = await scripted([`${OK}more`]);
    await using run = await proxyTo(guest);
    run.store.put("sb_a", { ports: { 49983: guest.port, 3000: untidy.port } });
    const there = ["E2b-Sandbox-Id: sb-a", "E2b-Sandbox-Port: 3000"];
    for (let i = 0; i < 2; i += 1) {
      await run.ask("GET /", there);
      await run.ask("GET /");
    }
    expect([guest.heard.length, untidy.heard.length]).toStrictEqual([1, 2]);
  });
});

describe("a kept relay that closes", () => {
  it("is not used any more", async () => {
    await using guest = await scripted([OK]);
    await using run = await proxyTo(guest);
    await run.ask("POST /", ["Content-Length: 0"]);
    for (const socket of guest.sockets) {
      socket.end();
    }
    await eventually("the relay closes", () => run.store.relays.size === 0);
    expect(await run.ask("POST /", ["Content-Length: 0"])).toMatchObject({ status: 200 });
    expect(run.store.count("dial")).toBe(2);
  });

  it.each([
    ["GET /", "end"],
    ["GET /", "reset"],
    ["OPTIONS /", "end"],
  ])("under a %s (%s) that was not heard of, is replaced once by a fresh one", async (line, how) => {
    await using guest = await scripted([OK, (socket) => (how === "end" ? socket.end() : socket.resetAndDestroy())]);
    await using run = await proxyTo(guest);
    await run.ask("GET /first");
    expect(await run.ask(line)).toMatchObject({ status: 200, body: "ok" });
    expect(guest.heard.map((own) => own.length)).toStrictEqual([2, 1]);
    expect(run.proxy.handler.counters.relayRetries).toBe(1);
  });

  it.each([
    ["POST /", ["Content-Length: 0"], ""],
    ["POST /", ["Content-Length: 4"], "body"],
    ["GET /", ["Content-Length: 4"], "body"],
    ["DELETE /", [], ""],
    ["PUT /", ["Transfer-Encoding: chunked"], "0\r\n\r\n"],
  ])("under a %s with %j is an answer: it is not sent twice", async (line, headers, body) => {
    await using guest = await scripted([OK, (socket) => socket.end()]);
    await using run = await proxyTo(guest);
    await run.ask("GET /first");
    expect(await run.ask(line, headers, body)).toMatchObject({ status: 502 });
    expect(guest.heard).toHaveLength(1);
  });

  it("in the middle of its answer's head is an answer: the guest has seen the request", async () => {
    await using guest = await scripted([OK, (socket) => socket.end("HTTP/1.1 200")]);
    await using run = await proxyTo(guest);
    await run.ask("GET /first");
    expect(await run.ask("GET /")).toMatchObject({ status: 502 });
    expect(guest.heard).toHaveLength(1);
  });

  it("is replaced once and not for ever", async () => {
    let dead = false;
    await using guest = await scripted([(socket) => (dead ? socket.end() : socket.write(OK))]);
    await using run = await proxyTo(guest);
    await run.ask("GET /first");
    dead = true;
    expect(await run.ask("GET /")).toMatchObject({ status: 502 });
    expect(guest.heard.map((own) => own.length)).toStrictEqual([2, 1]);
  });

  it("just before a request that must not be sent twice is noticed first", async () => {
    await using guest = await scripted([OK]);
    await using run = await proxyTo(guest);
    await run.ask("GET /first");
    using client = rawClient(run.proxy.port, "");
    await eventually("the relay is kept", () => run.proxy.handler.counters.relaysIdle() === 1);
    // Both are in the kernel before the proxy gets a turn.
    for (const socket of guest.sockets) {
      socket.resetAndDestroy();
    }
    client.socket.write(requestHead("POST /", [TOKEN, "Content-Length: 0"]));
    expect(await client.until("ok")).toContain("200 OK");
    expect(run.store.count("dial")).toBe(2);
  });
});

describe("a sandbox with kept relays", () => {
  it("loses them when it is released", async () => {
    await using guest = await scripted([OK]);
    await using run = await proxyTo(guest);
    await run.ask("GET /");
    await run.store.release("10.0.0.1:27777", "sb_a");
    await eventually("the relay closes", () => run.store.relays.size === 0);
    expect(await run.ask("GET /")).toMatchObject({ status: 502 });
    expect(guest.heard).toHaveLength(1);
  });

  it("loses one that is busy when it is released, as soon as it is free", async () => {
    let answer: () => void = () => undefined;
    await using guest = await scripted([
      (socket) => {
        answer = () => socket.write(OK);
      },
    ]);
    await using run = await proxyTo(guest);
    const asked = run.ask("GET /");
    // On a connection that is open the request may still be on its way.
    await eventually("the guest is asked", () => guest.heard[0]?.length === 1);
    await run.store.release("10.0.0.1:27777", "sb_a");
    answer();
    expect(await asked).toMatchObject({ status: 200 });
    await eventually("the relay closes", () => run.store.relays.size === 0);
  });

  it.each(["is cut", "hangs"])(
    "that is paused elsewhere, and its relay %s, is woken once by the next request",
    async (how) => {
      await using guest = await scripted([OK]);
      await using run = await proxyTo(guest);
      await run.ask("GET /");
      if (how === "is cut") {
        run.store.pause("sb_a");
      } else {
        Object.assign(run.store.guests.get("sb_a") ?? {}, { paused: true });
      }
      const answers = await Promise.all(Array.from({ length: 5 }, () => run.ask("POST /", ["Content-Length: 0"])));
      expect(answers.map(({ status }) => status)).toStrictEqual([200, 200, 200, 200, 200]);
      expect(run.store.wakes).toBe(1);
      expect(guest.heard[0]).toHaveLength(1);
    },
  );

  it.each(["is cut", "hangs"])("that is paused elsewhere, and its relay %s, is not woken by a probe", async (how) => {
    await using guest = await scripted([OK]);
    await using run = await proxyTo(guest);
    await run.ask("GET /");
    if (how === "is cut") {
      run.store.pause("sb_a");
    } else {
      Object.assign(run.store.guests.get("sb_a") ?? {}, { paused: true });
    }
    for (let i = 0; i < 2; i += 1) {
      expect(await run.ask("GET /health")).toMatchObject({ status: 502, body: expect.stringContaining("is paused") });
    }
    expect(run.store.wakes).toBe(0);
  });

  it("that inventory does not list any more is looked for again, and not asked over them", async () => {
    await using guest = await scripted([OK]);
    await using elsewhere = await scripted(["HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnew"]);
    await using run = await proxyTo(guest);
    await run.ask("GET /");
    run.store.guests.delete("sb_a");
    expect(await run.ask("GET /")).toMatchObject({ status: 502 });
    run.store.put("sb_a", { node: "10.0.0.2:27777", ports: { 49983: elsewhere.port } });
    expect(await run.ask("GET /")).toMatchObject({ status: 200, body: "new" });
    expect(guest.heard[0]).toHaveLength(1);
  });

  it("keeps a bounded number of them", async () => {
    const waiting: (() => void)[] = [];
    await using guest = await scripted([(socket) => waiting.push(() => socket.write(OK))]);
    await using run = await proxyTo(guest);
    const asked = Array.from({ length: 140 }, () => run.ask("GET /"));
    await eventually("all are asked", () => waiting.length === 140);
    waiting.forEach((answer) => answer());
    await Promise.all(asked);
    await eventually("the rest is closed", () => run.store.relays.size === 128);
    expect(run.proxy.handler.counters.dropped.counts.get("crowded")).toBe(12);
  });
});

it("no request is ever answered by another sandbox, another port or an older claim of the same name", async () => {
  const guests = new Map<string, Guest>();
  const names = ["sb_a", "sb_b", "sb_c"].flatMap((id) => ["3000", "49983"].map((port) => `${id}:${port}`));
  for (const name of names) {
    guests.set(name, await scripted([`HTTP/1.1 200 OK\r\nContent-Length: ${name.length}\r\n\r\n${name}`]));
  }
  const store = new ScriptedStore();
  for (const id of ["sb_a", "sb_b", "sb_c"]) {
    const ports = { 3000: guests.get(`${id}:3000`)?.port ?? 0, 49983: guests.get(`${id}:49983`)?.port ?? 0 };
    store.put(id, { token: "the same", ports });
  }
  await using proxy = await startProxy({ store, relayIdleMs: KEPT });
  async function ask(name: string, method: string): Promise<string> {
    const [id = "", port = ""] = name.split(":");
    const host = `${port}-${id.replace("_", "-")}.${DOMAIN}`;
    const headers = ["X-Access-Token: the same", "Connection: close", "Content-Length: 0"];
    using client = rawClient(proxy.port, requestHead(`${method} /`, headers, host));
    return parseAnswer((await client.ended()).text).body;
  }
  const request = fc.tuple(fc.constantFrom(...names), fc.constantFrom("GET", "POST"));
  await fc.assert(
    fc.asyncProperty(fc.array(fc.array(request, { maxLength: 5 }), { maxLength: 6 }), async (waves) => {
      for (const wave of waves) {
        const bodies = await Promise.all(wave.map(([name, method]) => ask(name, method)));
        expect(bodies).toStrictEqual(wave.map(([name]) => name));
      }
    }),
    { numRuns: 25 },
  );
  expect(proxy.handler.counters.relaysReused).toBeGreaterThan(0);
  for (const guest of guests.values()) {
    await guest[Symbol.asyncDispose]();
  }
});
