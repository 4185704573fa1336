import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import type { Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { DOMAIN, httpGuest, rawClient, rawGuest, requestHead, startProxy } from "./testing/fixtures.ts";
import { ScriptedStore } from "./testing/scripted-store.ts";

const TOKEN = "X-Access-Token: token-of-sb_a";
const HOUR_MS = 3_600_000;

// Only the timers of this package: sockets go on, and Node's own timers for them are looked at below.
beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval"] });
});
afterEach(() => {
  vi.useRealTimers();
});

function storeWith(port: number): ScriptedStore {
  const store = new ScriptedStore();
  store.put("sb_a", { ports: { 49983: port } });
  return store;
}

/** Sockets without a time limit of their own. */
function unlimited(sockets: Iterable<unknown>): boolean {
  return [...sockets].every((socket) => (socket as Socket).timeout === undefined || (socket as Socket).timeout === 0);
}

describe("a stream that says nothing for an hour", () => {
  it("goes on over HTTP/1.1, with a body that is still to come as well", async () => {
    await using guest = await httpGuest((request, response) => {
      response.writeHead(200, { "Content-Type": "application/connect+json" });
      response.write("begun");
      request.on("data", (piece: Buffer) => response.end(`got ${piece.toString()}`));
    });
    await using proxy = await startProxy({ store: storeWith(guest.port) });
    using client = rawClient(proxy.port, requestHead("POST /", [TOKEN, "Content-Length: 4"]));
    await client.until("begun");
    await vi.advanceTimersByTimeAsync(HOUR_MS);
    expect(unlimited(proxy.store.relays)).toBe(true);
    client.socket.write("late");
    expect(await client.until("got late")).toContain("got late");
  });

  it("goes on over HTTP/2", async () => {
    let finish: () => void = () => undefined;
    await using guest = await httpGuest((_request, response) => {
      response.writeHead(200);
      response.write("begun");
      finish = () => response.end("ended");
    });
    await using proxy = await startProxy({ store: storeWith(guest.port) });
    const session = connectHttp2(`http://127.0.0.1:${proxy.port}`);
    const stream = session.request({
      ":path": "/",
      ":authority": `49983-sb-a.${DOMAIN}`,
      "x-access-token": "token-of-sb_a",
    });
    let text = "";
    stream.on("data", (piece: Buffer) => {
      text += piece.toString();
    });
    await once(stream, "data");
    await vi.advanceTimersByTimeAsync(HOUR_MS);
    expect(unlimited(proxy.store.relays)).toBe(true);
    finish();
    await once(stream, "end");
    expect(text).toBe("begunended");
    session.close();
  });

  it("goes on after a switch of protocols", async () => {
    await using guest = await rawGuest((socket) => {
      socket.once("data", () => {
        socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n");
        socket.pipe(socket);
      });
    });
    await using proxy = await startProxy({ store: storeWith(guest.port) });
    const head = requestHead("GET /", [TOKEN, "Connection: Upgrade", "Upgrade: x"]);
    using client = rawClient(proxy.port, head);
    await client.until("101 Switching");
    await vi.advanceTimersByTimeAsync(HOUR_MS);
    expect(unlimited(proxy.store.relays)).toBe(true);
    client.socket.write("echo");
    expect(await client.until("echo")).toContain("echo");
  });

  it("goes on before its answer's head, as a long poll does", async () => {
    let finish: () => void = () => undefined;
    const asked = Promise.withResolvers<void>();
    await using guest = await httpGuest((_request, response) => {
      finish = () => response.end("at last");
      asked.resolve();
    });
    await using proxy = await startProxy({ store: storeWith(guest.port) });
    using client = rawClient(proxy.port, requestHead("GET /", [TOKEN]));
    await asked.promise;
    await vi.advanceTimersByTimeAsync(HOUR_MS);
    finish();
    expect(await client.until("at last")).toContain("200 OK");
  });
});
