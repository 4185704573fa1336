import { getEventListeners } from "node:events";
import { describe, expect, it, vi } from "vitest";
import { createNodePool, createNodePoller, ReplyBuffer, SandboxdError, type NodePoller } from "./index.ts";
import { selfSigned } from "./testing/self-signed.ts";
import { closedAddress, fickleServer, httpServer, tcpServer, tlsServer } from "./testing/servers.ts";

async function failure(call: Promise<unknown>): Promise<SandboxdError> {
  const error: unknown = await call.then(
    () => new Error("did not fail"),
    (reason: unknown) => reason,
  );
  if (!(error instanceof SandboxdError)) {
    throw error;
  }
  return error;
}

function info(poller: NodePoller, signal?: AbortSignal): Promise<Buffer> {
  return poller.info({ into: new ReplyBuffer(), signal });
}

describe("a poller", () => {
  it("reads both routes with the bearer, over one connection for all its polls", async () => {
    const seen: string[] = [];
    await using node = await httpServer((request, response) => {
      seen.push(`${request.method} ${request.url} ${request.headers.host} ${request.headers.authorization}`);
      response.end(`{"n":${seen.length}}`);
    });
    await using pool = createNodePool();
    const poller = createNodePoller({ address: node.address, token: "root", pool });
    const into = new ReplyBuffer();
    for (let round = 0; round < 10; round += 1) {
      expect((await poller.info({ into })).toString()).toBe(`{"n":${round * 2 + 1}}`);
      expect((await poller.sandboxes({ into })).toString()).toBe(`{"n":${round * 2 + 2}}`);
    }
    expect(seen.slice(0, 2)).toEqual([
      `GET /v1/info ${node.address} Bearer root`,
      `GET /v1/sandboxes ${node.address} Bearer root`,
    ]);
    expect(node.accepted).toBe(1);
  });

  it("asks once more, over a new connection, when the node closes the one it kept", async () => {
    const seen: string[] = [];
    await using node = await fickleServer("{}", seen);
    await using pool = createNodePool();
    const poller = createNodePoller({ address: node.address, pool });
    for (let round = 0; round < 3; round += 1) {
      expect((await info(poller)).toString()).toBe("{}");
    }
    expect(seen).toHaveLength(5);
    expect(node.accepted).toBe(3);
  });

  it("does not ask again when a kept connection breaks inside a reply", async () => {
    let asked = 0;
    await using node = await tcpServer((socket) =>
      socket.on("data", () => {
        asked += 1;
        if (asked === 1) {
          socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
        } else {
          socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{");
        }
      }),
    );
    await using pool = createNodePool();
    const poller = createNodePoller({ address: node.address, pool });
    await info(poller);
    await expect(info(poller)).rejects.toMatchObject({ code: "connection_lost", delivery: "maybe" });
    expect([asked, node.accepted]).toStrictEqual([2, 1]);
  });

  it("does not ask again when a new connection breaks", async () => {
    await using node = await tcpServer((socket) => socket.once("data", () => socket.destroy()));
    await using pool = createNodePool();
    const error = await failure(info(createNodePoller({ address: node.address, pool })));
    expect(error.code).toBe("connection_lost");
    expect(node.accepted).toBe(1);
  });

  it("reads megabytes into the buffer it is given, sized or in chunks", async () => {
    const text = JSON.stringify(Array.from({ length: 100_000 }, (_, at) => `row ${at} ü`));
    await using node = await httpServer((request, response) => {
      if (request.url === "/v1/info") {
        response.setHeader("content-length", Buffer.byteLength(text));
      }
      response.write(text.slice(0, 5));
      response.end(text.slice(5));
    });
    await using pool = createNodePool();
    const poller = createNodePoller({ address: node.address, pool });
    const [one, two] = [new ReplyBuffer(), new ReplyBuffer()];
    const replies = await Promise.all([poller.info({ into: one }), poller.sandboxes({ into: two })]);
    expect(replies.map((reply) => reply.toString() === text)).toEqual([true, true]);
    expect(replies[0]?.buffer).toBe(one.view().buffer);
  });

  it("reads many nodes at once through the memory they share", async () => {
    const bodies = Array.from({ length: 20 }, (_, at) => String(at).repeat(50_000));
    await using node = await httpServer((request, response) => {
      response.end(bodies[Number(request.headers.authorization?.slice(7))]);
    });
    await using pool = createNodePool();
    const reads = bodies.map((_, at) => info(createNodePoller({ address: node.address, token: String(at), pool })));
    expect((await Promise.all(reads)).map((reply) => reply.toString())).toEqual(bodies);
  });

  it("keeps status and message of a refusal, and goes on over the same connection", async () => {
    let status = 403;
    await using node = await httpServer((_request, response) => {
      response.writeHead(status).end('{"error":"operator token required"}');
    });
    await using pool = createNodePool();
    const poller = createNodePoller({ address: node.address, token: "tenant-secret", pool });
    const error = await failure(info(poller));
    expect(error).toMatchObject({ code: "status", status: 403, nodeMessage: "operator token required" });
    expect(error.message).toBe(`GET /v1/info at ${node.address}: 403 operator token required`);
    status = 200;
    await info(poller);
    expect(node.accepted).toBe(1);
  });

  it("opens a new connection when the node closed the last one, idle or by announcement", async () => {
    await using node = await httpServer((request, response) => {
      if (request.url === "/v1/sandboxes") {
        response.setHeader("connection", "close");
      }
      response.end("{}");
    });
    await using pool = createNodePool();
    const poller = createNodePoller({ address: node.address, pool });
    await info(poller);
    for (const socket of node.sockets) {
      socket.end();
    }
    await expect.poll(() => node.sockets.size, { timeout: 10_000 }).toBe(0);
    await info(poller);
    expect(node.accepted).toBe(2);
    await poller.sandboxes({ into: new ReplyBuffer() });
    await info(poller);
    expect(node.accepted).toBe(3);
  });

  it("drops a connection on which bytes come that nobody asked for", async () => {
    const reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    await using node = await tcpServer((socket) => {
      socket.on("data", () => {
        socket.write(reply);
        setTimeout(() => socket.write(reply.replace("{}", "[]")), 20);
      });
    });
    await using pool = createNodePool();
    const poller = createNodePoller({ address: node.address, pool });
    expect((await info(poller)).toString()).toBe("{}");
    await expect.poll(() => node.sockets.size, { timeout: 10_000 }).toBe(0);
    expect((await info(poller)).toString()).toBe("{}");
  });

  it("gives an idle connection up after its time", async () => {
    await using node = await httpServer((_request, response) => response.end("{}"));
    await using pool = createNodePool({ keepAliveMs: 30 });
    await info(createNodePoller({ address: node.address, pool }));
    await expect.poll(() => node.sockets.size, { timeout: 10_000 }).toBe(0);
  });

  it("does not take up a connection that it has given up a moment ago", async () => {
    await using node = await httpServer((_request, response) => response.end("{}"));
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      await using pool = createNodePool({ keepAliveMs: 30 });
      const poller = createNodePoller({ address: node.address, pool });
      await info(poller);
      // Its socket is closed and has not said so yet.
      vi.advanceTimersByTime(30);
      expect((await info(poller)).toString()).toBe("{}");
      expect(node.accepted).toBe(2);
    } finally {
      vi.useRealTimers();
    }
  });

  it("tells a node that cannot be reached from one that fails later", async () => {
    await using pool = createNodePool({ connectTimeoutMs: 100 });
    const refused = await failure(info(createNodePoller({ address: await closedAddress(), pool })));
    expect(refused).toMatchObject({ code: "unreachable", delivery: "no" });
    await using silent = await tcpServer((socket) => socket.resume());
    const tls = await failure(info(createNodePoller({ address: `https://${silent.address}`, pool })));
    expect(tls).toMatchObject({ code: "unreachable", delivery: "no" });
    for (const [answer, code] of [
      ["", "connection_lost"],
      ["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{", "connection_lost"],
      ["nonsense\r\n\r\n", "bad_reply"],
      ["HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", "bad_reply"],
    ] as const) {
      await using node = await tcpServer((socket) => socket.once("data", () => socket.end(answer)));
      const error = await failure(info(createNodePoller({ address: node.address, pool })));
      expect(error).toMatchObject({ code, delivery: "maybe" });
      await expect.poll(() => node.sockets.size, { timeout: 10_000 }).toBe(0);
    }
  });

  it("takes a body that ends with its connection", async () => {
    await using node = await tcpServer((socket) => socket.once("data", () => socket.end("HTTP/1.1 200 OK\r\n\r\n{}")));
    await using pool = createNodePool();
    expect((await info(createNodePoller({ address: node.address, pool }))).toString()).toBe("{}");
  });

  it.each([[""], ["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"]])(
    "is bounded when the node sends %j",
    async (head) => {
      await using node = await tcpServer((socket) => socket.once("data", () => socket.write(head)));
      await using pool = createNodePool();
      const poller = createNodePoller({ address: node.address, pool, requestTimeoutMs: 400 });
      expect(await failure(info(poller))).toMatchObject({ code: "timeout", delivery: "maybe" });
      await expect.poll(() => node.sockets.size, { timeout: 10_000 }).toBe(0);
    },
  );

  it("ends with its signal, in every phase, and keeps no listener", async () => {
    await using good = await httpServer((_request, response) => response.end("{}"));
    let abort = new AbortController();
    const reason = new Error("stop");
    await using node = await tcpServer((socket) => socket.once("data", () => abort.abort(reason)));
    await using pool = createNodePool();
    const sent = createNodePoller({ address: node.address, pool });
    const connecting = createNodePoller({ address: `https://${node.address}`, pool });
    expect(await failure(info(sent, AbortSignal.abort(reason)))).toMatchObject({ code: "aborted", delivery: "no" });
    for (const poller of [sent, connecting]) {
      abort = new AbortController();
      const error = await failure(info(poller, abort.signal));
      expect(error).toMatchObject({ code: "aborted", cause: reason, delivery: poller === sent ? "maybe" : "no" });
    }
    await expect.poll(() => node.sockets.size, { timeout: 10_000 }).toBe(0);
    const { signal } = new AbortController();
    await info(createNodePoller({ address: good.address, pool }), signal);
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });

  it("ends with its pool", async () => {
    await using node = await tcpServer((socket) => socket.resume());
    const pool = createNodePool();
    const poller = createNodePoller({ address: node.address, pool });
    const call = failure(info(poller));
    await expect.poll(() => node.sockets.size, { timeout: 10_000 }).toBe(1);
    await pool.close();
    expect(["connection_lost", "unreachable"]).toContain((await call).code);
    expect(await failure(info(poller))).toMatchObject({ code: "unreachable", delivery: "no" });
    await expect.poll(() => node.sockets.size, { timeout: 10_000 }).toBe(0);
  });

  it("reaches a node behind TLS, again and again over one connection", async () => {
    const identity = selfSigned();
    await using node = await tlsServer(identity, (socket) => {
      socket.on("data", () => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"));
    });
    await using pool = createNodePool({ ca: identity.cert });
    const poller = createNodePoller({ address: `https://localhost:${node.port}`, pool });
    for (let round = 0; round < 3; round += 1) {
      expect((await info(poller)).toString()).toBe("{}");
    }
    expect(node.accepted).toBe(1);
    await using strict = createNodePool();
    const untrusted = createNodePoller({ address: `https://localhost:${node.port}`, pool: strict });
    expect(await failure(info(untrusted))).toMatchObject({ code: "unreachable", delivery: "no" });
  });

  it("refuses addresses and tokens that cannot be used", async () => {
    await using pool = createNodePool();
    for (const options of [{ address: "a b:1" }, { address: "a:1/x" }, { address: "a:1", token: "x\r\ny" }]) {
      expect(() => createNodePoller({ pool, ...options })).toThrow(SandboxdError);
    }
  });
});
