import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import type { Duplex } from "node:stream";

import { describe, expect, it } from "vitest";

import { EnvdClientError } from "./errors.ts";
import type { DialGuest } from "./guest-call.ts";
import { initGuest } from "./init-guest.ts";

interface Guest extends AsyncDisposable {
  readonly dial: DialGuest;
  /** Everything the guest received. */
  readonly received: () => string;
  readonly dialled: () => Duplex[];
}

/** A guest that answers each request with these bytes; without them it stays silent. */
async function guest(answer: string | undefined): Promise<Guest> {
  let received = "";
  const sockets = new Set<Socket>();
  const dialled: Duplex[] = [];
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("data", (data) => {
      const had = received.includes("\r\n\r\n{");
      received += data.toString("latin1");
      if (!had && received.includes("\r\n\r\n{") && answer !== undefined) socket.end(answer);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    dial: async () => {
      const socket = connect(port, "127.0.0.1");
      dialled.push(socket);
      await once(socket, "connect");
      return socket;
    },
    received: () => received,
    dialled: () => dialled,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

function failure(call: Promise<unknown>): Promise<EnvdClientError> {
  return call.then(
    () => {
      throw new Error("the call was expected to fail");
    },
    (error: unknown) => {
      if (error instanceof EnvdClientError) return error;
      throw error;
    },
  );
}

function answerOf(status: number, body: string): string {
  return `HTTP/1.1 ${status} Some\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
}

const NO_CONTENT = "HTTP/1.1 204 No Content\r\ncache-control: no-store\r\n\r\n";

describe("initGuest", () => {
  it.each([
    ["with a version", "X-Envd-Version: 0.8.0\r\n", "0.8.0"],
    ["without one", "", undefined],
  ])("tells what the daemon says of itself %s", async (_name, header, version) => {
    await using there = await guest(`HTTP/1.1 204 No Content\r\n${header}\r\n`);
    expect(await initGuest(there.dial, {})).toEqual({ version });
  });

  it("sends one POST /init with the body and closes the connection", async () => {
    await using there = await guest(NO_CONTENT);
    const body = { accessToken: "t", envVars: { A: "ü\n" }, defaultUser: "user", timestamp: "2030-01-01T00:00:00Z" };
    await initGuest(there.dial, body);
    const [head, payload] = there.received().split("\r\n\r\n");
    expect(head).toMatch(/^POST \/init HTTP\/1\.1\r\n/);
    expect(head?.toLowerCase()).toContain(`content-length: ${Buffer.byteLength(JSON.stringify(body))}`);
    expect(JSON.parse(Buffer.from(payload ?? "", "latin1").toString("utf8"))).toEqual(body);
    expect(there.dialled().map((socket) => socket.destroyed)).toEqual([true]);
  });

  it.each([
    ["a status with the daemon's words", answerOf(401, '{"code":401,"message":"no"}'), "refused", 401, "no"],
    ["a status without words", answerOf(503, ""), "refused", 503, undefined],
    ["a 200 where 204 is the contract", answerOf(200, "{}"), "refused", 200, undefined],
    ["an answer cut short", answerOf(401, "{}").slice(0, -1), "unreachable", undefined, undefined],
    ["bytes that are not HTTP", "\x00\x01nonsense\r\n\r\n", "unreachable", undefined, undefined],
    ["an end before any answer", "", "unreachable", undefined, undefined],
  ] as const)("reports %s", async (_what, bytes, code, status, guestMessage) => {
    await using there = await guest(bytes);
    const error = await failure(initGuest(there.dial, { accessToken: "very-secret" }));
    expect([error.code, error.status, error.guestMessage]).toEqual([code, status, guestMessage]);
    expect(`${error.message} ${String(error.stack)}`).not.toContain("very-secret");
    expect(there.dialled().every((socket) => socket.destroyed)).toBe(true);
  });

  it("is bounded when the guest stays silent", async () => {
    await using there = await guest(undefined);
    const error = await failure(initGuest(there.dial, {}, { timeoutMs: 50 }));
    expect(error.code).toBe("timeout");
    expect(there.dialled().every((socket) => socket.destroyed)).toBe(true);
  });

  it("is bounded when the dial never ends, and closes a connection that comes too late", async () => {
    await using there = await guest(NO_CONTENT);
    const late = Promise.withResolvers<Duplex>();
    const error = await failure(initGuest(() => late.promise, {}, { timeoutMs: 20 }));
    expect(error.code).toBe("timeout");
    const socket = await there.dial({});
    late.resolve(socket);
    await expect.poll(() => socket.destroyed).toBe(true);
  });

  it("reports a failed dial with its cause", async () => {
    const reason = new Error("no route");
    const error = await failure(initGuest(() => Promise.reject(reason), {}));
    expect(error.code).toBe("unreachable");
    expect(error.cause).toBe(reason);
  });

  it("ends with the caller's signal and leaves no listener on it", async () => {
    await using there = await guest(undefined);
    const controller = new AbortController();
    const call = failure(initGuest(there.dial, {}, { signal: controller.signal }));
    await expect.poll(() => there.received()).toContain("POST /init");
    controller.abort(new Error("caller left"));
    expect((await call).code).toBe("aborted");
    expect((await failure(initGuest(there.dial, {}, { signal: controller.signal }))).code).toBe("aborted");
  });
});
