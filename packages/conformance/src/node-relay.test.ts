import { type AddressInfo, createServer, type Socket } from "node:net";

import { describe, expect, it } from "vitest";

import { nodeClient } from "./node-client.ts";
import { openRelay, readToEnd } from "./node-relay.ts";

/** A listener that hands each connection its request's head. */
async function listener(answer: (socket: Socket, head: string) => void) {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.once("data", (head) => answer(socket, head.toString()));
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const node = nodeClient(`127.0.0.1:${(server.address() as AddressInfo).port}`, undefined);
  return {
    node,
    [Symbol.asyncDispose]: async () => {
      await node[Symbol.asyncDispose]();
      for (const socket of sockets) {
        socket.destroy();
      }
      server.close();
    },
  };
}

const SWITCHING = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\r\n";

describe("a relay", () => {
  it("sends exactly the head of node API §10.1, and what is pipelined behind it", async () => {
    let seen = "";
    await using rig = await listener((socket, head) => {
      seen = head;
      socket.end(SWITCHING);
    });
    const { socket } = await openRelay(rig.node, "sb_1", 80, { bearer: "t", pipelined: "early" });
    socket.destroy();
    expect(seen).toBe(
      `GET /v1/sandboxes/sb_1/ports/80 HTTP/1.1\r\nHost: ${rig.node.origin.host}\r\nAuthorization: Bearer t\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\r\nearly`,
    );
  });

  it("keeps what came behind the answer's head, and its ends are the caller's", async () => {
    await using rig = await listener((socket) => {
      socket.end(`${SWITCHING}first `);
      socket.on("data", () => undefined);
    });
    const { head, status, socket } = await openRelay(rig.node, "sb_1", 80, { bearer: "t" });
    expect([head, status]).toEqual([SWITCHING, 101]);
    expect((await readToEnd(socket)).toString()).toBe("first ");
    expect(socket.writable).toBe(true);
    socket.destroy();
  });

  it("tells a refusal with its headers and its body", async () => {
    const body = '{"error":"upgrade to tcp required"}';
    const head = `HTTP/1.1 426 Upgrade Required\r\nUpgrade: tcp\r\nContent-Length: ${body.length}\r\n\r\n`;
    await using rig = await listener((socket) => socket.write(head + body));
    const reply = await openRelay(rig.node, "sb_1", 80, { bearer: null, upgrade: null });
    expect([reply.status, reply.headers.get("upgrade"), reply.body]).toEqual([426, "tcp", body]);
    expect(reply.socket.destroyed).toBe(true);
  });

  it("rejects when the connection ends before the answer", async () => {
    await using rig = await listener((socket) => socket.end("HTTP/1.1 1"));
    await expect(openRelay(rig.node, "sb_1", 80, { bearer: "t" })).rejects.toThrow("the connection ended after");
  });

  it("rejects a read that a reset cuts short, and one without an end", async () => {
    await using rig = await listener((socket) => {
      socket.write(`${SWITCHING}part`);
      setTimeout(() => socket.resetAndDestroy(), 30);
    });
    const { socket } = await openRelay(rig.node, "sb_1", 80, { bearer: "t" });
    await expect(readToEnd(socket)).rejects.toThrow("ECONNRESET");
    await using still = await listener((other) => other.write(SWITCHING));
    const quiet = await openRelay(still.node, "sb_1", 80, { bearer: "t" });
    await expect(readToEnd(quiet.socket, 20)).rejects.toThrow("no end within 20 ms");
  });
});
