import { createServer as createHttp2Server } from "node:http2";
import { connect } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { Duplex } from "node:stream";
import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { eventually, httpGuest, rawClient, rawGuest, requestHead, startProxy } from "./testing/fixtures.ts";
import { ScriptedStore } from "./testing/scripted-store.ts";

const TOKEN = "X-Access-Token: token-of-sb_a";

/** A byte stream that is no socket, as a tunnel of another protocol would be. */
class Tunnel extends Duplex {
  readonly #socket: Socket;

  constructor(socket: Socket) {
    super({ allowHalfOpen: true });
    this.#socket = socket;
    socket.on("data", (chunk: Buffer) => {
      if (!this.push(chunk)) {
        socket.pause();
      }
    });
    socket.on("end", () => this.push(null));
    socket.on("error", (error) => this.destroy(error));
    socket.on("close", () => this.destroy());
  }

  override _read(): void {
    this.#socket.resume();
  }
  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket.write(chunk, done);
  }
  override _final(done: () => void): void {
    this.#socket.end(done);
  }
  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket.destroy();
    done(error);
  }
}

/** A store whose relays are {@link Tunnel}s to one local port. */
class TunnelStore extends ScriptedStore {
  readonly #port: number;

  constructor(port: number) {
    super();
    this.#port = port;
    this.put("sb_a");
  }

  override async dialGuestPort(): Promise<Duplex> {
    const socket = connect({ host: "127.0.0.1", port: this.#port, allowHalfOpen: true });
    await once(socket, "connect");
    const relay = new Tunnel(socket);
    this.relays.add(relay);
    relay.once("close", () => this.relays.delete(relay));
    return relay;
  }
}

describe("a relay that is no socket", () => {
  it("carries requests and answers", async () => {
    await using guest = await httpGuest((request, response) => request.pipe(response));
    await using proxy = await startProxy({ store: new TunnelStore(guest.port) });
    using client = rawClient(proxy.port, `${requestHead("POST /", [TOKEN, "Content-Length: 4"])}body`);
    expect(await client.until("0\r\n\r\n")).toContain("body");
    await eventually("the relay closes", () => proxy.store.relays.size === 0 && guest.sockets.size === 0);
  });

  it("carries HTTP/2", async () => {
    const server = createHttp2Server();
    server.on("stream", (stream) => {
      stream.respond({ ":status": 200 });
      stream.end("over HTTP/2");
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const store = new TunnelStore((server.address() as AddressInfo).port);
    await using proxy = await startProxy({ store, guestHttp2: true });
    using client = rawClient(proxy.port, requestHead("GET /", [TOKEN]));
    expect(await client.until("0\r\n\r\n")).toContain("over HTTP/2");
    await eventually("the relay closes", () => proxy.store.relays.size === 0);
    server.close();
  });

  it("carries switched protocols, half-close included", async () => {
    await using guest = await rawGuest((socket) => {
      socket.once("data", () => {
        socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n");
        socket.on("data", (chunk: Buffer) => socket.write(`echo ${chunk.toString()}`));
        socket.on("end", () => socket.end("bye"));
      });
    });
    await using proxy = await startProxy({ store: new TunnelStore(guest.port) });
    using client = rawClient(proxy.port, requestHead("GET /", [TOKEN, "Connection: Upgrade", "Upgrade: x"]));
    await client.until("\r\n\r\n");
    client.socket.write("hello");
    await client.until("echo hello");
    client.socket.end();
    expect(await client.ended()).toMatchObject({ clean: true, text: expect.stringMatching(/bye$/) as string });
    await eventually("the relay closes", () => proxy.store.relays.size === 0);
  });

  it("breaks the answer off when it breaks", async () => {
    await using guest = await httpGuest((_request, response) => response.write("some"));
    await using proxy = await startProxy({ store: new TunnelStore(guest.port) });
    using client = rawClient(proxy.port, requestHead("GET /", [TOKEN]));
    await client.until("some");
    for (const relay of proxy.store.relays) {
      relay.destroy(new Error("the tunnel broke"));
    }
    expect((await client.ended()).text).not.toMatch(/0\r\n\r\n$/);
  });
});

describe("a relay that ended before it was used", () => {
  it.each([false, true])("is a 502 and not a hang, with HTTP/2 to guests: %s", async (guestHttp2) => {
    for (const how of ["ended", "destroyed", "ending"] as const) {
      await using guest = await rawGuest((socket) => socket.end());
      const store = new ScriptedStore();
      store.put("sb_a", { ports: { 49983: guest.port } });
      const dial = store.dialGuestPort.bind(store);
      store.dialGuestPort = async (...args) => {
        const relay = await dial(...args);
        if (how === "destroyed") {
          relay.destroy();
          await once(relay, "close");
        } else {
          relay.resume();
          if (how === "ended") {
            await once(relay, "end");
          }
        }
        return relay;
      };
      await using proxy = await startProxy({ store, guestHttp2 });
      using client = rawClient(proxy.port, requestHead("GET /", [TOKEN]));
      expect(await client.until("}")).toContain('"code":502');
      await eventually("the relay closes", () => store.relays.size === 0);
    }
  });
});

it("a request cut at any byte, and continued, is served", async () => {
  await using guest = await httpGuest((request, response) => request.pipe(response));
  const store = new ScriptedStore();
  store.put("sb_a", { ports: { 49983: guest.port } });
  await using proxy = await startProxy({ store });
  const bytes = `${requestHead("POST /p?q=1", [TOKEN, "Transfer-Encoding: chunked"])}4\r\nbody\r\n0\r\nX-T: 1\r\n\r\n`;
  await Promise.all(
    Array.from({ length: bytes.length - 1 }, async (_, cut) => {
      using client = rawClient(proxy.port, bytes.slice(0, cut + 1));
      await new Promise((resolve) => {
        setTimeout(resolve, 5 + (cut % 7));
      });
      client.socket.write(bytes.slice(cut + 1));
      expect(await client.until("0\r\n\r\n")).toContain("4\r\nbody\r\n");
    }),
  );
  await eventually("the relays close", () => store.relays.size === 0);
});

it("a request cut at any byte, and dropped, leaves nothing behind", async () => {
  await using guest = await httpGuest((request, response) => request.pipe(response));
  const store = new ScriptedStore();
  store.put("sb_a", { ports: { 49983: guest.port } });
  await using proxy = await startProxy({ store });
  const bytes = `${requestHead("POST /p?q=1", [TOKEN, "Content-Length: 8"])}body`;
  await Promise.all(
    Array.from({ length: bytes.length }, async (_, cut) => {
      using client = rawClient(proxy.port, bytes.slice(0, cut + 1));
      await once(client.socket, "connect");
      await new Promise((resolve) => {
        setTimeout(resolve, 5 + (cut % 7));
      });
      if (cut % 2 === 0) {
        client.socket.resetAndDestroy();
      }
    }),
  );
  await eventually("the relays close", () => store.relays.size === 0 && guest.sockets.size === 0);
});
