import { createServer as createHttp2Server, connect, constants } from "node:http2";
import type {
  ClientHttp2Session,
  ClientHttp2Stream,
  IncomingHttpHeaders,
  OutgoingHttpHeaders,
  ServerHttp2Stream,
} from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { DOMAIN, eventually, httpGuest, rawGuest, startProxy } from "./testing/fixtures.ts";
import type { Guest, RunningProxy } from "./testing/fixtures.ts";
import { ScriptedStore } from "./testing/scripted-store.ts";

const HOST = `49983-sb-a.${DOMAIN}`;

interface Rig extends AsyncDisposable {
  readonly proxy: RunningProxy;
  readonly store: ScriptedStore;
  readonly session: ClientHttp2Session;
  open(headers?: OutgoingHttpHeaders, options?: { readonly endStream?: boolean }): ClientHttp2Stream;
}

/** A proxy and one HTTP/2 connection to it in cleartext, by prior knowledge. */
async function proxyTo(guest: Guest, options: { readonly guestHttp2?: boolean } = {}): Promise<Rig> {
  const store = new ScriptedStore();
  store.put("sb_a", { ports: { 49983: guest.port } });
  const proxy = await startProxy({ store, ...options });
  const session = connect(`http://127.0.0.1:${proxy.port}`);
  session.on("error", () => undefined);
  return {
    proxy,
    store,
    session,
    open(headers = {}, { endStream = true } = {}) {
      const stream = session.request(
        { ":authority": HOST, "x-access-token": "token-of-sb_a", ...headers },
        { endStream },
      );
      stream.on("error", () => undefined);
      return stream;
    },
    async [Symbol.asyncDispose]() {
      session.destroy();
      await proxy.stop();
    },
  };
}

interface Answer {
  readonly status: number | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly trailers: IncomingHttpHeaders;
  readonly informed: IncomingHttpHeaders[];
  readonly code: number;
}

/** Everything that arrived until the stream closed. */
function answerOf(stream: ClientHttp2Stream): Promise<Answer> {
  let headers: IncomingHttpHeaders & { ":status"?: number | undefined } = {};
  let trailers: IncomingHttpHeaders = {};
  const informed: IncomingHttpHeaders[] = [];
  let body = "";
  stream.on("response", (fields) => {
    headers = fields;
  });
  stream.on("headers", (fields: IncomingHttpHeaders) => informed.push(fields));
  stream.on("trailers", (fields: IncomingHttpHeaders) => {
    trailers = fields;
  });
  stream.setEncoding("latin1");
  stream.on("data", (text: string) => {
    body += text;
  });
  return new Promise((resolve) => {
    stream.once("close", () =>
      resolve({ status: headers[":status"], headers, body, trailers, informed, code: stream.rstCode ?? 0 }),
    );
  });
}

/** A guest that speaks HTTP/2 by prior knowledge. */
async function http2Guest(listener: (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => void): Promise<Guest> {
  const server = createHttp2Server();
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  server.on("sessionError", () => undefined);
  server.on("stream", (stream, headers) => {
    stream.on("error", () => undefined);
    listener(stream, headers);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    sockets,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) {
        socket.destroy();
      }
      server.close();
    },
  };
}

describe("an HTTP/2 client", () => {
  it("passes on that a body is empty, however late the relay comes", async () => {
    await using guest = await httpGuest((request, response) => {
      request.resume();
      request.once("end", () => response.end("heard"));
    });
    await using rig = await proxyTo(guest);
    for (const end of ["at once", "later"]) {
      const stream = rig.open({ ":method": "POST" }, { endStream: false });
      if (end === "later") await sleep(50);
      stream.end();
      expect(await answerOf(stream)).toMatchObject({ status: 200, body: "heard" });
    }
  });

  it("is downgraded to the guest's protocol", async () => {
    let seen: readonly string[] = [];
    let version = "";
    await using guest = await httpGuest((request, response) => {
      seen = request.rawHeaders;
      version = request.httpVersion;
      response.setHeader("Set-Cookie", ["a=1", "b=2"]);
      response.setHeader("Keep-Alive", "timeout=5");
      response.end("hello");
    });
    await using run = await proxyTo(guest);
    const answer = await answerOf(run.open({ ":path": "/p?q=1", cookie: ["x=1", "y=2"], "x-multi": ["1", "2"] }));
    expect(answer).toMatchObject({ status: 200, body: "hello", code: 0 });
    expect(answer.headers["set-cookie"]).toStrictEqual(["a=1", "b=2"]);
    expect(answer.headers).not.toHaveProperty("keep-alive");
    expect(version).toBe("1.1");
    expect(seen.slice(0, 2)).toStrictEqual(["Host", HOST]);
    expect(seen).toEqual(expect.arrayContaining(["Cookie", "x=1; y=2", "x-multi", "1", "x-multi", "2"]));
    expect(seen.some((field) => field.startsWith(":"))).toBe(false);
  });

  it.each([
    [{ ":authority": "example.com" }, 400],
    [{ "x-access-token": "" }, 401],
    [{ "x-access-token": "wrong" }, 401],
    [{ ":path": "/init" }, 404],
    [{ ":authority": `80-sb-a.${DOMAIN}` }, 502],
    [{ ":path": "/healthz", ":authority": "any" }, 204],
    [{ ":method": "OPTIONS", ":path": "*" }, 204],
    [{ ":method": "HEAD", ":path": "/init" }, 404],
  ])("with %j gets %i", async (headers, status) => {
    await using guest = await httpGuest((_request, response) => response.end());
    await using run = await proxyTo(guest);
    const answer = await answerOf(run.open({ ...headers, origin: "https://x.example" }));
    expect(answer).toMatchObject({ status, code: 0 });
    if (status !== 204) {
      expect(answer.headers["access-control-allow-origin"]).toBe("*");
      expect(answer.headers["content-type"]).toBe("application/json");
      expect(headers[":method" as keyof typeof headers] === "HEAD" || answer.body.includes(`"code":${status}`)).toBe(
        true,
      );
    }
  });

  it("is refused CONNECT", async () => {
    await using guest = await httpGuest((_request, response) => response.end());
    await using run = await proxyTo(guest);
    const stream = run.session.request({ ":method": "CONNECT", ":authority": "example.com:443" });
    stream.on("error", () => undefined);
    expect(await answerOf(stream)).toMatchObject({ status: 400 });
  });

  it("streams both ways, with trailers and interim answers", async () => {
    let requestTrailers: readonly string[] = [];
    await using guest = await httpGuest((request, response) => {
      response.writeEarlyHints({ link: "</a>; rel=preload" });
      response.writeHead(200, { Trailer: "X-Sum" });
      response.flushHeaders();
      request.on("data", (chunk: Buffer) => response.write(`got ${chunk.toString()};`));
      request.on("end", () => {
        requestTrailers = request.rawTrailers;
        response.addTrailers({ "X-Sum": "out" });
        response.end();
      });
    });
    await using run = await proxyTo(guest);
    const stream = run.session.request(
      { ":authority": HOST, ":method": "POST", "x-access-token": "token-of-sb_a", trailer: "x-sum" },
      { endStream: false, waitForTrailers: true },
    );
    stream.on("wantTrailers", () => stream.sendTrailers({ "x-sum": "in" }));
    const answer = answerOf(stream);
    await new Promise((resolve) => {
      stream.once("response", resolve);
    });
    stream.write("one");
    await new Promise((resolve) => {
      stream.once("data", resolve);
    });
    stream.end("two");
    expect(await answer).toMatchObject({ status: 200, body: "got one;got two;", code: 0 });
    expect((await answer).trailers["x-sum"]).toBe("out");
    expect((await answer).informed).toMatchObject([{ ":status": 103, link: "</a>; rel=preload" }]);
    expect(requestTrailers).toStrictEqual(["x-sum", "in"]);
  });

  it.each([
    ["a length where there is none", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", 204],
    [
      "a length of an interim answer",
      "HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\nHTTP/1.1 204 Done\r\n\r\n",
      204,
    ],
    ["a field of the connection", "HTTP/1.1 200 OK\r\nHTTP2-Settings: AA\r\nContent-Length: 0\r\n\r\n", 200],
    [
      "one of an interim answer",
      "HTTP/1.1 103 Hints\r\nHTTP2-Settings: AA\r\nTE: x\r\n\r\nHTTP/1.1 204 Done\r\n\r\n",
      204,
    ],
    ["a long field", `HTTP/1.1 200 OK\r\nX-Long: ${"\xff".repeat(65_000)}\r\nContent-Length: 0\r\n\r\n`, 200],
    ["a field too long", `HTTP/1.1 200 OK\r\nX-Long: ${"\xff".repeat(70_000)}\r\nContent-Length: 0\r\n\r\n`, 502],
    ["too much", `HTTP/1.1 200 OK\r\n${`X: ${"\xff".repeat(9000)}\r\n`.repeat(20)}Content-Length: 0\r\n\r\n`, 502],
    [
      "too much in an interim answer",
      `HTTP/1.1 103 Hints\r\nX-Long: ${"\xff".repeat(500_000)}\r\n\r\nHTTP/1.1 204 Done\r\n\r\n`,
      204,
    ],
    ["many fields", `HTTP/1.1 200 OK\r\n${"X-Many: abcdefgh\r\n".repeat(3000)}Content-Length: 0\r\n\r\n`, 200],
    ["too many fields", `HTTP/1.1 200 OK\r\n${"a:\r\n".repeat(150_000)}Content-Length: 0\r\n\r\n`, 502],
  ])("gets answers whose heads have %s, and its other streams go on", async (_what, bytes, status) => {
    await using guest = await rawGuest((socket) => {
      socket.once("data", () => socket.end(bytes, "latin1"));
    });
    await using run = await proxyTo(guest);
    const session = connect(`http://127.0.0.1:${run.proxy.port}`, {
      maxHeaderListPairs: 8192,
      settings: { maxHeaderListSize: 16 * 1024 * 1024 },
    });
    session.on("error", () => undefined);
    try {
      for (let round = 0; round < 3; round += 1) {
        const stream = session.request({ ":authority": HOST, "x-access-token": "token-of-sb_a" });
        stream.on("error", () => undefined);
        expect(await answerOf(stream)).toMatchObject({ status, code: 0 });
      }
    } finally {
      session.destroy();
    }
  });

  it("loses one answer to trailers too long for its protocol, and its other streams go on", async () => {
    const trailers = `X-Long: ${"x".repeat(10_000)}\r\n`.repeat(80);
    await using guest = await rawGuest((socket) => {
      socket.once("data", () =>
        socket.end(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n${trailers}\r\n`),
      );
    });
    await using other = await httpGuest((_request, response) => {
      response.write("begun;");
      response.write("");
      setTimeout(() => response.end("done"), 100);
    });
    await using run = await proxyTo(guest);
    run.store.guests.get("sb_a")?.ports.set(80, other.port);
    const neighbour = answerOf(run.open({ ":authority": `80-sb-a.${DOMAIN}` }));
    expect(await answerOf(run.open())).toMatchObject({
      status: 200,
      body: "x",
      code: constants.NGHTTP2_INTERNAL_ERROR,
    });
    expect(await neighbour).toMatchObject({ status: 200, body: "begun;done", code: 0 });
    expect(run.session.destroyed).toBe(false);
    await eventually("the relay is closed", () => guest.sockets.size === 0);
  });

  it("is asked for its body once the guest is reached", async () => {
    await using guest = await httpGuest((request, response) => request.pipe(response));
    await using run = await proxyTo(guest);
    const stream = run.open({ ":method": "POST", expect: "100-continue" }, { endStream: false });
    const answer = answerOf(stream);
    await new Promise((resolve) => {
      stream.once("continue", resolve);
    });
    expect(run.store.relays.size).toBe(1);
    stream.end("body");
    expect(await answer).toMatchObject({ status: 200, body: "body" });
  });

  it("that cancels destroys the relay at once, in every phase", async () => {
    await using guest = await httpGuest((request, response) => {
      if (request.url === "/body") {
        response.write("some");
      }
    });
    await using run = await proxyTo(guest);
    for (const phase of ["/dial", "/upload", "/wait", "/body"]) {
      run.store.beforeDial = async (_id, options) => {
        if (phase === "/dial") {
          await sleep(50);
          options?.signal?.throwIfAborted();
        }
      };
      const before = run.store.count("dial");
      const stream = run.open({ ":method": "POST", ":path": phase }, { endStream: phase !== "/upload" });
      await eventually("the dial", () => run.store.count("dial") > before);
      if (phase === "/body") {
        await new Promise((resolve) => {
          stream.once("data", resolve);
        });
      } else if (phase !== "/dial") {
        await eventually("the guest", () => guest.sockets.size === 1);
      }
      stream.close(constants.NGHTTP2_CANCEL);
      await sleep(phase === "/dial" ? 80 : 0);
      await eventually(`no relay after ${phase}`, () => run.store.relays.size === 0 && guest.sockets.size === 0);
    }
    expect(await answerOf(run.open({ ":path": "/healthz" }))).toMatchObject({ status: 204 });
  });

  it("that drops its connection destroys every relay", async () => {
    await using guest = await httpGuest((_request, response) => response.write("some"));
    await using run = await proxyTo(guest);
    for (let i = 0; i < 20; i += 1) {
      run.open();
    }
    await eventually("twenty relays", () => run.store.relays.size === 20);
    run.session.destroy();
    await eventually("none", () => run.store.relays.size === 0 && guest.sockets.size === 0);
  });

  it.each([
    ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n", "FIN"],
    ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n", "RST"],
    ["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome", "FIN"],
    ["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome", "RST"],
  ])("sees a reset when the guest breaks off after %j by %s", async (bytes, how) => {
    await using guest = await rawGuest((socket) => {
      socket.once("data", () => socket.write(bytes));
    });
    await using run = await proxyTo(guest);
    const stream = run.open();
    const answer = answerOf(stream);
    await new Promise((resolve) => {
      stream.once("data", resolve);
    });
    for (const socket of guest.sockets) {
      if (how === "FIN") {
        socket.end();
      } else {
        socket.resetAndDestroy();
      }
    }
    expect((await answer).code).toBe(constants.NGHTTP2_INTERNAL_ERROR);
    await eventually("the relay closes", () => run.store.relays.size === 0);
  });

  it("gets an early answer to an upload whole, and is not kept waiting", async () => {
    await using guest = await rawGuest((socket) => {
      socket.once("data", () => socket.end("HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig"));
    });
    await using run = await proxyTo(guest);
    const stream = run.open({ ":method": "POST" }, { endStream: false });
    const answer = answerOf(stream);
    stream.write("begin");
    expect(await answer).toMatchObject({ status: 413, body: "big", code: 0 });
  });

  it("stalls the guest when it does not read", async () => {
    const total = 64 * 1024 * 1024;
    let written = 0;
    await using guest = await httpGuest((_request, response) => {
      const chunk = Buffer.alloc(64 * 1024);
      const feed = (): void => {
        while (written < total) {
          written += chunk.length;
          if (!response.write(chunk)) {
            response.once("drain", feed);
            return;
          }
        }
        response.end();
      };
      feed();
    });
    await using run = await proxyTo(guest);
    const stream = run.open();
    stream.pause();
    let before = -1;
    await eventually("the guest stalls", () => {
      const stalled = written > 0 && written === before;
      before = written;
      return stalled;
    });
    await sleep(50);
    expect(written).toBeLessThan(total / 2);
    let read = 0;
    stream.on("data", (chunk: Buffer) => {
      read += chunk.length;
    });
    stream.resume();
    await new Promise((resolve) => {
      stream.once("end", resolve);
    });
    expect(read).toBe(total);
  });

  it("carries many streams on one connection", { timeout: 120_000 }, async () => {
    await using guest = await httpGuest((request, response) => response.end(request.url));
    await using run = await proxyTo(guest);
    const answers = await Promise.all(Array.from({ length: 500 }, (_, i) => answerOf(run.open({ ":path": `/${i}` }))));
    expect(answers.map(({ body }) => body)).toStrictEqual(answers.map((_, i) => `/${i}`));
    await eventually("the relays close", () => run.store.relays.size === 0);
  });

  it("may cancel thousands of streams at once without losing the others", { timeout: 120_000 }, async (context) => {
    if (Number(process.versions.node.split(".")[0]) < 24) {
      context.skip("this Node takes a thousand cancelled streams for an attack");
    }
    let kept: (() => void) | undefined;
    await using guest = await httpGuest((request, response) => {
      response.writeHead(200);
      response.flushHeaders();
      if (request.url === "/kept") {
        kept = () => response.end("whole");
      }
    });
    await using run = await proxyTo(guest);
    const other = answerOf(run.open({ ":path": "/kept" }));
    const streams = Array.from({ length: 2500 }, () => run.open({ ":path": "/hang", "x-access-token": "unknown" }));
    const cancelled = streams.map((stream) => answerOf(stream));
    for (const stream of streams) {
      stream.close(constants.NGHTTP2_CANCEL);
    }
    await Promise.all(cancelled);
    await eventually("the guest answers", () => kept !== undefined);
    kept?.();
    expect(await other).toMatchObject({ status: 200, body: "whole", code: 0 });
  });

  it("survives 300 cancelled downloads", { timeout: 120_000 }, async () => {
    await using guest = await httpGuest((_request, response) => {
      response.writeHead(200, { "Content-Length": "100000000" });
      response.write(Buffer.alloc(100_000));
    });
    await using run = await proxyTo(guest);
    for (let round = 0; round < 6; round += 1) {
      await Promise.all(
        Array.from({ length: 50 }, async () => {
          const stream = run.open();
          await new Promise((resolve) => {
            stream.once("response", resolve);
          });
          stream.close(constants.NGHTTP2_CANCEL);
        }),
      );
    }
    await eventually("the relays close", () => run.store.relays.size === 0 && guest.sockets.size === 0);
    expect(await answerOf(run.open({ ":path": "/healthz" }))).toMatchObject({ status: 204 });
  });
});

describe("an HTTP/2 guest", () => {
  it("is spoken to by prior knowledge when asked", async () => {
    let seen: IncomingHttpHeaders = {};
    await using guest = await http2Guest((stream, headers) => {
      seen = headers;
      stream.respond({ ":status": 200, "content-type": "text/plain" }, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers({ "x-sum": "out" }));
      stream.pipe(stream);
    });
    await using run = await proxyTo(guest, { guestHttp2: true });
    const stream = run.open({ ":method": "POST", ":path": "/p?q" }, { endStream: false });
    const answer = answerOf(stream);
    stream.end("echo");
    expect(await answer).toMatchObject({ status: 200, body: "echo", code: 0 });
    expect((await answer).trailers["x-sum"]).toBe("out");
    expect(seen).toMatchObject({ ":authority": HOST, ":path": "/p?q", ":method": "POST", ":scheme": "http" });
    expect(seen).not.toHaveProperty("x-access-token");
    await eventually("the relay closes", () => run.store.relays.size === 0 && guest.sockets.size === 0);
  });

  it("answers without a body", async () => {
    await using guest = await http2Guest((stream) => stream.respond({ ":status": 204 }, { endStream: true }));
    await using run = await proxyTo(guest, { guestHttp2: true });
    expect(await answerOf(run.open())).toMatchObject({ status: 204, body: "", code: 0 });
  });

  it.each(["reset", "connection", "goaway"])("that breaks off (%s) breaks the client's answer off", async (how) => {
    await using guest = await http2Guest((stream) => {
      // Waiting for trailers keeps the stream from ending before it is reset.
      stream.respond({ ":status": 200 }, { waitForTrailers: true });
      stream.write("some");
      setTimeout(() => {
        if (how === "reset") {
          stream.close(constants.NGHTTP2_INTERNAL_ERROR);
        } else if (how === "goaway") {
          stream.session?.destroy(undefined, constants.NGHTTP2_ENHANCE_YOUR_CALM);
        } else {
          for (const socket of guest.sockets) {
            socket.destroy();
          }
        }
      }, 20);
    });
    await using run = await proxyTo(guest, { guestHttp2: true });
    const answer = await answerOf(run.open());
    expect(answer.body).toBe("some");
    expect(answer.code).toBe(constants.NGHTTP2_INTERNAL_ERROR);
    await eventually("the relay closes", () => run.store.relays.size === 0);
  });

  it("that speaks only HTTP/1.1 is a 502", async () => {
    await using guest = await httpGuest((_request, response) => response.end());
    await using run = await proxyTo(guest, { guestHttp2: true });
    expect(await answerOf(run.open())).toMatchObject({ status: 502, code: 0 });
    await eventually("the relay closes", () => run.store.relays.size === 0);
  });

  it("is rid of a client that cancels", async () => {
    await using guest = await http2Guest((stream) => {
      stream.respond({ ":status": 200 });
      stream.write("some");
    });
    await using run = await proxyTo(guest, { guestHttp2: true });
    const stream = run.open();
    await new Promise((resolve) => {
      stream.once("data", resolve);
    });
    stream.close(constants.NGHTTP2_CANCEL);
    await eventually("the relay closes", () => run.store.relays.size === 0 && guest.sockets.size === 0);
  });
});
