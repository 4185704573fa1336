import { connect as connectHttp2, type ClientHttp2Session, type Http2Server } from "node:http2";
import type { Server, ServerResponse } from "node:http";
import { connect, createServer, Socket, type AddressInfo } from "node:net";
import { buffer, text } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import type { ApiServer } from "../api-server.ts";
import { http1Server } from "./http1-server.ts";
import { http2Server } from "./http2-server.ts";
import type { ServingTimes } from "./limits.ts";
import { OpenConnections } from "./open-connections.ts";

const LONG: ServingTimes = { headMs: 60_000, requestMs: 60_000, stallMs: 60_000, idleMs: 60_000 };

interface Front extends AsyncDisposable {
  readonly port: number;
  readonly open: OpenConnections;
}

/** Serves one protocol in the clear. */
async function front(make: (open: OpenConnections) => Server | Http2Server): Promise<Front> {
  const open = new OpenConnections();
  const inner = make(open);
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    open.addSocket(socket);
    inner.emit("connection", socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    open,
    async [Symbol.asyncDispose]() {
      for (const socket of open.sockets) {
        socket.destroy();
      }
      inner.close();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const http1 = (listener: ApiServer["listener"], times: Partial<ServingTimes>): Promise<Front> =>
  front((open) => http1Server({ listener }, open, () => false, { ...LONG, ...times }).server);
const http2 = (listener: ApiServer["listener"], times: Partial<ServingTimes>): Promise<Front> =>
  front((open) => http2Server({ listener }, open, 100, { ...LONG, ...times }));

async function dial(port: number, words = ""): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => undefined);
  await new Promise((resolve) => socket.once("connect", resolve));
  if (words !== "") {
    socket.write(words);
  }
  return socket;
}

/** Resolves when the other side has ended a connection. */
function ended(socket: Socket | ClientHttp2Session): Promise<unknown> {
  return new Promise((resolve) => {
    socket.once("close", resolve);
    if (socket instanceof Socket) {
      socket.resume();
    }
  });
}

function session(port: number): ClientHttp2Session {
  const client = connectHttp2(`http://127.0.0.1:${port}`);
  client.on("error", () => undefined);
  return client;
}

const ok: ApiServer["listener"] = async (_incoming, outgoing) => void outgoing.end("ok");
const never: ApiServer["listener"] = () => new Promise(() => undefined);

describe("a client of HTTP/1.1 is cut off when it", () => {
  it.each<[what: string, words: string]>([
    ["says nothing", ""],
    ["begins a head and does not end it", "GET / HTTP/1.1\r\nHost: x\r\n"],
  ])("%s in time", async (_what, words) => {
    await using server = await http1(ok, { headMs: 50 });
    const socket = await dial(server.port, words);
    expect(await text(socket)).toMatch(/^HTTP\/1.1 408 .*"reason":"Timeout"/s);
  });

  it("does not end a body in time", async () => {
    await using server = await http1(never, { headMs: 50, requestMs: 100 });
    const socket = await dial(server.port, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab");
    await ended(socket);
  });

  it("does not end a body that nobody waits for any more", async () => {
    await using server = await http1(ok, { headMs: 50, requestMs: 100 });
    const socket = await dial(server.port, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab");
    await ended(socket);
  });

  it("keeps a connection for nothing", async () => {
    await using server = await http1(ok, { idleMs: 50 });
    const socket = await dial(server.port, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    await ended(socket);
  });

  it("takes nothing of an answer", async () => {
    await using server = await http1(async (_incoming, outgoing) => void outgoing.end(Buffer.alloc(64_000_000)), {
      stallMs: 50,
    });
    const socket = await dial(server.port, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    socket.pause();
    await server.open.until(() => server.open.running === 1, 5000);
    expect(await server.open.until(() => server.open.sockets.size === 0, 20_000)).toBe(true);
    expect(server.open.running).toBe(0);
    socket.destroy();
  });
});

describe("a client of HTTP/2 is cut off when it", () => {
  it("says nothing in time", async () => {
    await using server = await http2(ok, { headMs: 50 });
    await ended(await dial(server.port));
  });

  it("sends no request for long, whatever pings it sends", async () => {
    await using server = await http2(ok, { idleMs: 100 });
    const client = session(server.port);
    const pings = setInterval(() => client.destroyed || client.ping(() => undefined), 10);
    await ended(client);
    clearInterval(pings);
  });

  it("has had its answers and sends no other request", async () => {
    await using server = await http2(ok, { idleMs: 500 });
    const client = session(server.port);
    expect(await text(client.request({ ":path": "/" }))).toBe("ok");
    await ended(client);
  });

  it("does not end a body in time, by that stream alone", async () => {
    await using server = await http2(never, { requestMs: 50 });
    const client = session(server.port);
    const stream = client.request({ ":path": "/", ":method": "POST" });
    stream.on("error", () => undefined);
    stream.write("ab");
    await new Promise((resolve) => stream.once("close", resolve));
    expect(client.destroyed).toBe(false);
    expect(server.open.running).toBe(0);
    client.destroy();
  });

  it("does not end a body that nobody waits for any more", async () => {
    await using server = await http2(async (incoming, outgoing) => {
      incoming.resume();
      outgoing.end("ok");
    }, {});
    const client = session(server.port);
    const stream = client.request({ ":path": "/", ":method": "POST" });
    stream.on("error", () => undefined);
    stream.write("ab");
    await new Promise((resolve) => stream.once("close", resolve).resume());
    client.destroy();
  });

  it("takes nothing of an answer, by that stream alone", async () => {
    await using server = await http2(
      async (incoming, outgoing) => {
        outgoing.end(incoming.url === "/large" ? Buffer.alloc(1_000_000) : "ok");
      },
      { stallMs: 200 },
    );
    const client = session(server.port);
    const stream = client.request({ ":path": "/large" });
    stream.on("error", () => undefined);
    stream.pause();
    await new Promise((resolve) => stream.once("response", resolve));
    expect(await server.open.until(() => server.open.running === 0, 20_000)).toBe(true);
    expect(await text(client.request({ ":path": "/" }))).toBe("ok");
    client.destroy();
  });
});

describe("bodies that nobody reads yet", () => {
  it("do not keep back those of other streams on the connection", async () => {
    await using server = await http2(async (incoming, outgoing) => {
      if (incoming.url === "/read") {
        outgoing.end(String((await buffer(incoming)).length));
      }
    }, {});
    const client = session(server.port);
    for (let each = 0; each < 60; each += 1) {
      const stream = client.request({ ":path": "/hold", ":method": "POST" });
      stream.on("error", () => undefined);
      stream.write(Buffer.alloc(65_535));
    }
    const stream = client.request({ ":path": "/read", ":method": "POST" });
    stream.end(Buffer.alloc(500_000));
    expect(await text(stream)).toBe("500000");
    client.destroy();
  });
});

describe("a quiet watch", () => {
  const times = { headMs: 300, requestMs: 300, stallMs: 150, idleMs: 300 };
  const watch: ApiServer["listener"] = async (_incoming, outgoing) => {
    const answer = outgoing as ServerResponse;
    answer.writeHead(200);
    answer.write("a");
    await new Promise((resolve) => setTimeout(resolve, 700));
    answer.write("b");
    await new Promise((resolve) => setTimeout(resolve, 700));
    answer.end("c");
  };

  it("outlives all these times over HTTP/1.1", async () => {
    await using server = await http1(watch, times);
    const socket = await dial(server.port, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(await text(socket)).toMatch(/\r\n1\r\na\r\n1\r\nb\r\n1\r\nc\r\n/);
  });

  it("outlives all these times over HTTP/2", async () => {
    await using server = await http2(watch, times);
    const client = session(server.port);
    expect(await text(client.request({ ":path": "/" }))).toBe("abc");
    client.destroy();
  });
});
