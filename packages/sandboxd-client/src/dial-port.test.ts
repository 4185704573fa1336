import { getEventListeners } from "node:events";
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import { dialPort, SandboxdError } from "./index.ts";
import { closedAddress, tcpServer, tlsServer } from "./testing/servers.ts";
import { selfSigned } from "./testing/self-signed.ts";

const switching = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\r\n";

function relay(address: string, signal?: AbortSignal): ReturnType<typeof dialPort> {
  return dialPort({ address, id: "sb_0123456789abcdef", port: 49_983, token: "tok" }, { signal });
}

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

/** Reads to the end and leaves the other direction alone, which an async iterator does not do on every Node release. */
function untilEnd(stream: Readable): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.once("end", () => resolve(Buffer.concat(chunks)));
    stream.once("error", reject);
  });
}

/** Runs `answer` once the request head is complete. */
function afterHead(socket: Socket, answer: (head: string) => void): void {
  let head = "";
  const onData = (chunk: Buffer): void => {
    head += chunk.toString("latin1");
    if (head.includes("\r\n\r\n")) {
      socket.off("data", onData);
      answer(head);
    }
  };
  socket.on("data", onData);
}

describe("an accepted relay", () => {
  it("is asked for with exactly these bytes", async () => {
    const heads: string[] = [];
    await using node = await tcpServer((socket) =>
      afterHead(socket, (head) => {
        heads.push(head);
        socket.write(switching);
      }),
    );
    for (const token of ["tok", ""]) {
      const stream = await dialPort({ address: node.address, id: "sb_1", port: 22, token });
      stream.destroy();
    }
    const rest = "Upgrade: tcp\r\nConnection: Upgrade\r\n\r\n";
    const start = `GET /v1/sandboxes/sb_1/ports/22 HTTP/1.1\r\nHost: ${node.address}\r\n`;
    expect(heads).toEqual([`${start}Authorization: Bearer tok\r\n${rest}`, `${start}${rest}`]);
  });

  it("replays early bytes, wherever the node's reply is cut", async () => {
    const reply = Buffer.from(`${switching}early bytes`);
    for (let cut = 1; cut < reply.length; cut += 1) {
      await using node = await tcpServer((socket) =>
        afterHead(socket, () => {
          socket.write(reply.subarray(0, cut));
          setImmediate(() => socket.end(reply.subarray(cut)));
        }),
      );
      const stream = await relay(node.address);
      expect((await buffer(stream)).toString()).toBe("early bytes");
      stream.destroy();
    }
  });

  it("passes over interim replies", async () => {
    await using node = await tcpServer((socket) =>
      afterHead(socket, () => socket.end(`HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 x\r\nA: b\r\n\r\n${switching}x`)),
    );
    const stream = await relay(node.address);
    expect((await buffer(stream)).toString()).toBe("x");
    stream.destroy();
  });

  it.each([["early"], [""]])("keeps early bytes %j and the end for a reader who comes late", async (early) => {
    await using node = await tcpServer((socket) => afterHead(socket, () => socket.end(switching + early)));
    const stream = await relay(node.address);
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect((await buffer(stream)).toString()).toBe(early);
    expect(stream.readableEnded).toBe(true);
    stream.destroy();
  });

  it("carries a megabyte each way unchanged", async () => {
    await using node = await tcpServer((socket) =>
      afterHead(socket, () => {
        socket.write(switching);
        socket.pipe(socket);
      }),
    );
    const stream = await relay(node.address);
    const data = Buffer.alloc(1 << 20, "0123456789");
    stream.end(data);
    expect((await buffer(stream)).equals(data)).toBe(true);
  });

  it("still brings the guest's answer after our end", async () => {
    await using node = await tcpServer(
      (socket) =>
        afterHead(socket, () => {
          socket.write(switching);
          const chunks: Buffer[] = [];
          socket.on("data", (chunk: Buffer) => chunks.push(chunk));
          socket.on("end", () => socket.end(`got ${Buffer.concat(chunks).toString()}`));
        }),
      { halfOpen: true },
    );
    const stream = await relay(node.address);
    stream.end("question");
    expect((await buffer(stream)).toString()).toBe("got question");
  });

  it("still takes our bytes after the guest's end", async () => {
    let got: Promise<Buffer> | undefined;
    await using node = await tcpServer(
      (socket) =>
        afterHead(socket, () => {
          socket.end(`${switching}bye`);
          got = untilEnd(socket);
        }),
      { halfOpen: true },
    );
    const stream = await relay(node.address);
    expect((await untilEnd(stream)).toString()).toBe("bye");
    expect(stream.writable).toBe(true);
    stream.end("late words");
    expect((await got)?.toString()).toBe("late words");
  });

  it("that is reset with nobody listening closes and does no harm", async () => {
    await using node = await tcpServer((socket) =>
      afterHead(socket, () => {
        socket.write(switching);
        setTimeout(() => socket.resetAndDestroy(), 20);
      }),
    );
    const stream = await relay(node.address);
    stream.resume();
    await new Promise<void>((resolve) => stream.once("close", resolve));
    expect(stream.errored).toMatchObject({ code: "ECONNRESET" });
  });

  it("is not touched by the signal any more", async () => {
    await using node = await tcpServer((socket) => afterHead(socket, () => socket.write(switching)));
    const abort = new AbortController();
    const stream = await relay(node.address, abort.signal);
    expect(getEventListeners(abort.signal, "abort")).toStrictEqual([]);
    abort.abort();
    expect(stream.destroyed).toBe(false);
    stream.destroy();
  });

  it("runs over TLS with SNI and HTTP/1.1 as protocol, half-closing both ways", async () => {
    const identity = selfSigned();
    const seen: unknown[] = [];
    await using node = await tlsServer(
      identity,
      (socket) => {
        seen.push(socket.alpnProtocol, "servername" in socket ? socket.servername : undefined);
        afterHead(socket, () => {
          socket.write(`${switching}early `);
          socket.on("data", (chunk: Buffer) => socket.write(chunk));
          socket.on("end", () => socket.end("late"));
        });
      },
      true,
    );
    const options = { id: "sb_1", port: 1, token: "tok", ca: identity.cert };
    const stream = await dialPort({ ...options, address: `https://localhost:${node.port}` });
    stream.end("echo ");
    expect((await buffer(stream)).toString()).toBe("early echo late");
    expect(seen).toEqual(["http/1.1", "localhost"]);
    const byAddress = await dialPort({ ...options, address: `https://127.0.0.1:${node.port}` });
    byAddress.destroy();
    expect(seen[3]).toBe(false);
  });

  it("reaches an IPv6 node", async () => {
    const heads: string[] = [];
    await using node = await tcpServer(
      (socket) =>
        afterHead(socket, (head) => {
          heads.push(head);
          socket.end(`${switching}six`);
        }),
      { host: "::1" },
    );
    const stream = await relay(node.address);
    expect((await buffer(stream)).toString()).toBe("six");
    expect(heads[0]).toContain(`\r\nHost: [::1]:${node.port}\r\n`);
    stream.destroy();
  });
});

describe("a refused relay", () => {
  const message = '{"error":"guest port unreachable"}';
  it.each([
    ["with a length", `Content-Length: ${message.length}\r\n\r\n${message}`, false],
    ["with a length and more behind it", `content-length:${message.length}\r\n\r\n${message}trailing`, false],
    [
      "in chunks",
      `Transfer-Encoding: chunked\r\n\r\n5\r\n${message.slice(0, 5)}\r\n1d\r\n${message.slice(5)}\r\n0\r\n\r\n`,
      false,
    ],
    ["up to the end", `\r\n${message}`, true],
    ["without an end", `Content-Length: 4000\r\n\r\n${message}`, false],
  ])("keeps status and message of a body %s", async (_name, rest, end) => {
    await using node = await tcpServer((socket) =>
      afterHead(socket, () => {
        socket.write(`HTTP/1.1 502 Bad Gateway\r\nDate: now\r\n${rest}`);
        if (end) {
          socket.end();
        }
      }),
    );
    const error = await failure(relay(node.address));
    expect(error).toMatchObject({ code: "status", status: 502, delivery: "maybe" });
    expect(error.nodeMessage).toBe("guest port unreachable");
    await expect.poll(() => node.sockets.size, { timeout: 10_000 }).toBe(0);
  });

  it.each([[401], [404], [409], [426], [500], [200]])("reads status %i, whatever comes behind", async (status) => {
    await using node = await tcpServer((socket) =>
      afterHead(socket, () => socket.end(`HTTP/1.1 ${status} Words\r\nContent-Length: 0\r\n\r\n`)),
    );
    expect(await failure(relay(node.address))).toMatchObject({ code: "status", status });
  });

  it.each([
    ["an endless head", `HTTP/1.1 101 X\r\n${"A: b\r\n".repeat(4000)}`, "bad_reply"],
    ["a head one byte over the cap", `HTTP/1.1 101 X\r\nA: ${"b".repeat(16_384 - 22)}\r\n\r\n`, "bad_reply"],
    ["something else", "SSH-2.0-OpenSSH_9\r\n\r\n", "bad_reply"],
    ["a status of two digits", "HTTP/1.1 99 Odd\r\n\r\n", "bad_reply"],
    ["nothing but the end", "", "connection_lost"],
    ["half a head and the end", "HTTP/1.1 101 Swit", "connection_lost"],
  ])("fails on %s", async (_name, reply, code) => {
    await using node = await tcpServer((socket) => afterHead(socket, () => socket.end(reply)));
    expect(await failure(relay(node.address))).toMatchObject({ code, delivery: "maybe" });
    await expect.poll(() => node.sockets.size, { timeout: 10_000 }).toBe(0);
  });

  it("takes a head of exactly 16 KiB", async () => {
    const head = `HTTP/1.1 101 X\r\nA: ${"b".repeat(16_384 - 23)}\r\n\r\n`;
    expect(head).toHaveLength(16_384);
    await using node = await tcpServer((socket) => afterHead(socket, () => socket.end(`${head}x`)));
    const stream = await relay(node.address);
    expect((await buffer(stream)).toString()).toBe("x");
    stream.destroy();
  });

  it("is told from a node that cannot be reached", async () => {
    expect(await failure(relay(await closedAddress()))).toMatchObject({ code: "unreachable", delivery: "no" });
    await using silent = await tcpServer((socket) => socket.resume());
    const options = { address: `https://${silent.address}`, id: "sb_1", port: 1, token: "t", connectTimeoutMs: 50 };
    expect(await failure(dialPort(options))).toMatchObject({ code: "unreachable", delivery: "no" });
    await using untrusted = await tlsServer(selfSigned(), (socket) => socket.resume());
    const tls = await failure(relay(`https://${untrusted.address}`));
    expect(tls).toMatchObject({ code: "unreachable", delivery: "no" });
  });

  it.each([
    ["sb_\r\nX: y", "tok", 1],
    ["sb_\0", "tok", 1],
    ["", "tok", 1],
    ["..", "tok", 1],
    ["sb_1", "to\nk", 1],
    ["sb_1", "to\0k", 1],
    ["sb_1", "to\u007fk", 1],
    ["sb_1", "tok", 0],
    ["sb_1", "tok", 65_536],
    ["sb_1", "tok", -1],
    ["sb_1", "tok", 1.5],
    ["sb_1", "tok", Number.NaN],
  ])("is refused before dialing for id %j, token %j, port %d", async (id, token, port) => {
    await using node = await tcpServer((socket) => socket.resume());
    const error = await failure(dialPort({ address: node.address, id, port, token }));
    expect(error).toMatchObject({ code: "bad_request", delivery: "no" });
    expect(node.accepted).toBe(0);
  });
});

it("a relay that is refused or cannot be reached leaves nothing on its signal", async () => {
  const { signal } = new AbortController();
  await using node = await tcpServer((socket) =>
    afterHead(socket, () => socket.end("HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\n{}")),
  );
  expect(await failure(relay(node.address, signal))).toMatchObject({ status: 404 });
  expect(await failure(relay(await closedAddress(), signal))).toMatchObject({ code: "unreachable" });
  expect(getEventListeners(signal, "abort")).toStrictEqual([]);
});

describe("an abort of a relay", () => {
  it.each([
    ["before the call", "before", "no"],
    ["while connecting", "connecting", "no"],
    ["while the node works", "waiting", "maybe"],
    ["inside the reply head", "head", "maybe"],
    ["inside a refusal's body", "refusal", "maybe"],
  ])("%s destroys the socket", async (_name, phase, delivery) => {
    const abort = new AbortController();
    const reason = new Error("left");
    const leave = (): void => {
      setImmediate(() => abort.abort(reason));
    };
    await using node = await tcpServer((socket) => {
      if (phase === "connecting") {
        socket.resume();
        leave();
        return;
      }
      afterHead(socket, () => {
        socket.resume();
        if (phase === "head") {
          socket.write("HTTP/1.1 101 Swi");
        } else if (phase === "refusal") {
          socket.write("HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\n{");
        }
        leave();
      });
    });
    if (phase === "before") {
      abort.abort(reason);
    }
    const address = phase === "connecting" ? `https://${node.address}` : node.address;
    expect(await failure(relay(address, abort.signal))).toMatchObject({ code: "aborted", delivery, cause: reason });
    await expect.poll(() => node.sockets.size, { timeout: 10_000 }).toBe(0);
    expect(node.accepted).toBe(phase === "before" ? 0 : 1);
  });
});
