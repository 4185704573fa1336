import { createHash } from "node:crypto";
import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import {
  eventually,
  httpGuest,
  parseAnswer,
  rawClient,
  rawGuest,
  requestHead,
  startProxy,
} from "./testing/fixtures.ts";
import type { Guest, RunningProxy } from "./testing/fixtures.ts";
import { ScriptedStore } from "./testing/scripted-store.ts";

const TOKEN = "X-Access-Token: token-of-sb_a";
const WEBSOCKET = [
  TOKEN,
  "Connection: keep-alive, Upgrade",
  "Upgrade: websocket",
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
];
const SWITCH =
  "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n";

interface Rig extends AsyncDisposable {
  readonly proxy: RunningProxy;
  readonly store: ScriptedStore;
}

async function proxyTo(guest: Guest, options: { readonly guestHttp2?: boolean } = {}): Promise<Rig> {
  const store = new ScriptedStore();
  store.put("sb_a", { ports: { 49983: guest.port } });
  const proxy = await startProxy({ store, ...options });
  return { proxy, store, [Symbol.asyncDispose]: () => proxy.stop() };
}

/** A guest that agrees and then hands its connection to the test. */
function agreeing(use: (socket: Socket, head: string) => void, switchBytes = SWITCH): Promise<Guest> {
  return rawGuest((socket) => {
    let head = "";
    const read = (chunk: Buffer): void => {
      head += chunk.toString("latin1");
      if (head.includes("\r\n\r\n")) {
        socket.off("data", read);
        socket.write(switchBytes, "latin1");
        use(socket, head);
      }
    };
    socket.on("data", read);
  });
}

describe("an upgrade", () => {
  it("becomes raw bytes both ways, with the query and the handshake untouched", async () => {
    let seen = "";
    await using guest = await agreeing((socket, head) => {
      seen = head;
      socket.on("data", (chunk: Buffer) => socket.write(`echo:${chunk.toString("latin1")}`, "latin1"));
    });
    await using run = await proxyTo(guest);
    using client = rawClient(run.proxy.port, requestHead("GET /ws?t=a%2Bb%3D%3D", WEBSOCKET));
    const answer = await client.until("\r\n\r\n");
    expect(answer).toMatch(/^HTTP\/1\.1 101 Switching Protocols\r\n/);
    expect(answer).toContain("Sec-WebSocket-Accept: x");
    expect(answer).toContain("Connection: Upgrade\r\nUpgrade: websocket");
    expect(seen).toMatch(/^GET \/ws\?t=a%2Bb%3D%3D HTTP\/1\.1\r\nHost: 49983-sb-a\.sandbox\.example\.com\r\n/);
    expect(seen).toContain("Connection: Upgrade\r\nUpgrade: websocket");
    expect(seen).toContain("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==");
    expect(seen.toLowerCase()).not.toContain("x-access-token");
    client.socket.write(Buffer.from([0x81, 0x85, 0x00, 0xff, 0x00]));
    expect(await client.until("\xff\x00")).toContain("echo:\x81\x85\x00\xff\x00");
  });

  it("replays what either side sent early", async () => {
    await using guest = await agreeing((socket, head) => {
      socket.write(`head says ${head.split("\r\n\r\n")[1]};`);
      socket.on("data", (chunk: Buffer) => socket.write(`later ${chunk.toString()};`));
    }, `${SWITCH}early from the guest;`);
    await using run = await proxyTo(guest);
    run.store.beforeDial = () => sleep(30);
    using client = rawClient(run.proxy.port, `${requestHead("GET /", WEBSOCKET)}first`);
    await sleep(10);
    client.socket.write(" and more");
    const text = await client.until("and more");
    expect(text).toContain("early from the guest;");
    expect(text.replace(/;later |;head says /g, "")).toContain("first and more");
  });

  it.each(["client", "guest"])("passes a half-close of the %s on and keeps the other direction", async (first) => {
    await using guest = await agreeing((socket) => {
      if (first === "guest") {
        socket.end("bye");
        let got = "";
        socket.on("data", (chunk: Buffer) => {
          got += chunk.toString();
        });
        socket.on("end", () => {
          halves.push(got);
        });
      } else {
        socket.on("data", () => undefined);
        socket.on("end", () => {
          setTimeout(() => socket.end("after your end"), 20);
        });
      }
    });
    const halves: string[] = [];
    await using run = await proxyTo(guest);
    using client = rawClient(run.proxy.port, requestHead("GET /", WEBSOCKET));
    await client.until("\r\n\r\n");
    if (first === "guest") {
      await client.until("bye");
      await client.ended();
      client.socket.end("still sending");
      await eventually("the guest reads on", () => halves[0] === "still sending");
    } else {
      client.socket.end();
      const { text, clean } = await client.ended();
      expect(text).toContain("after your end");
      expect(clean).toBe(true);
    }
    await eventually("both close", () => run.store.relays.size === 0 && guest.sockets.size === 0);
  });

  it("carries megabytes unchanged, at the pace of the reader", async () => {
    const total = 16 * 1024 * 1024;
    const block = Buffer.alloc(65_536, "abcdefgh");
    await using guest = await agreeing((socket) => {
      let left = total;
      const feed = (): void => {
        while (left > 0) {
          left -= block.length;
          if (!socket.write(block)) {
            socket.once("drain", feed);
            return;
          }
        }
        socket.end();
      };
      feed();
    });
    await using run = await proxyTo(guest);
    using client = rawClient(run.proxy.port, requestHead("GET /", WEBSOCKET));
    await client.until("\r\n\r\n");
    client.socket.pause();
    await sleep(50);
    client.socket.resume();
    const { text, clean } = await client.ended();
    const { body } = parseAnswer(text);
    expect(clean).toBe(true);
    expect(createHash("sha256").update(body, "latin1").digest("hex")).toBe(
      createHash("sha256")
        .update("abcdefgh".repeat(total / 8))
        .digest("hex"),
    );
  });

  it.each([
    ["404 Not Found", "nothing here"],
    ["502 Bad Gateway", ""],
    ["200 OK", "x".repeat(200_000)],
  ])(
    "that the guest answers with %s is an ordinary answer, after which the connection closes",
    async (status, body) => {
      await using guest = await httpGuest((_request, response) => {
        response.writeHead(Number(status.split(" ")[0]), { "X-From": "guest" });
        response.end(body);
      });
      await using run = await proxyTo(guest);
      using client = rawClient(
        run.proxy.port,
        `${requestHead("GET /", [...WEBSOCKET, "Accept-Encoding: identity"])}early bytes`,
      );
      const { text, clean } = await client.ended();
      const answer = parseAnswer(text);
      expect(answer.head).toContain(`HTTP/1.1 ${status}`);
      expect(answer.head).toContain("X-From: guest");
      expect(answer.head).toContain("Connection: close");
      expect(answer.body.replaceAll(/\r\n|^[0-9a-f]+(?=\r\n)/g, "")).toContain(body.slice(0, 10_000));
      expect(clean).toBe(true);
      await eventually("the relay closes", () => run.store.relays.size === 0 && guest.sockets.size === 0);
    },
  );

  it.each([
    ["no token", WEBSOCKET.slice(1), undefined, 401],
    ["a wrong token", [...WEBSOCKET.slice(1), "X-Access-Token: wrong"], undefined, 401],
    ["an internal path", WEBSOCKET, "/init", 404],
  ])("with %s is refused in JSON that browsers may read", async (_what, headers, path, status) => {
    await using guest = await httpGuest((_request, response) => response.end());
    await using run = await proxyTo(guest);
    const head = requestHead(`GET ${path ?? "/"}`, [...headers, "Origin: https://x.example"]);
    using client = rawClient(run.proxy.port, head);
    const { text, clean } = await client.ended();
    expect(parseAnswer(text)).toMatchObject({ status });
    expect(parseAnswer(text).body).toContain(`"code":${status}`);
    expect(text).toContain("Access-Control-Allow-Origin: *");
    expect(clean).toBe(true);
  });

  it("falls back to HTTP/1.1 when guests speak HTTP/2", async () => {
    await using guest = await agreeing((socket) => socket.write("raw"));
    await using run = await proxyTo(guest, { guestHttp2: true });
    using client = rawClient(run.proxy.port, requestHead("GET /", WEBSOCKET));
    expect(await client.until("raw")).toContain("101 Switching Protocols");
  });

  it.each([
    [
      "to HTTP/2",
      ["Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABk", "Content-Length: 4"],
    ],
    ["with a body", ["Upgrade: websocket", "Connection: Upgrade", "Content-Length: 4"]],
  ])("%s is served as an ordinary request", async (_what, headers) => {
    let seen: readonly string[] = [];
    await using guest = await httpGuest((request, response) => {
      seen = request.rawHeaders.map((field) => field.toLowerCase());
      request.on("data", (chunk: Buffer) => response.write(`got ${chunk.toString()}`));
      request.on("end", () => response.end());
    });
    await using run = await proxyTo(guest);
    using client = rawClient(run.proxy.port, `${requestHead("POST /", [TOKEN, ...headers])}body`);
    expect(await client.until("0\r\n\r\n")).toContain("got body");
    expect(seen).not.toContain("upgrade");
    expect(seen).not.toContain("http2-settings");
    client.socket.write(requestHead("GET /healthz"));
    await client.until("204 No Content");
  });
});

describe("broken upgrades", () => {
  type Breaker = (socket: Socket) => void;
  const guests: Record<string, Breaker> = {
    "closes before its answer": (socket) => socket.end(),
    "resets before its answer": (socket) => socket.resetAndDestroy(),
    "sends garbage": (socket) => socket.end("\x00\x01garbage\r\n\r\n"),
    "resets after its answer": (socket) => {
      socket.write(SWITCH, () => setTimeout(() => socket.resetAndDestroy(), 3));
    },
    "closes after its answer": (socket) => socket.end(SWITCH),
    "resets within a frame": (socket) => {
      socket.write(`${SWITCH}\x81\x7e`, "latin1", () => setTimeout(() => socket.resetAndDestroy(), 3));
    },
    refuses: (socket) => socket.end("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"),
    "stays silent": () => undefined,
  };
  const clients: Record<string, Breaker> = {
    "resets at once": (socket) => socket.resetAndDestroy(),
    "resets a moment later": (socket) => setTimeout(() => socket.resetAndDestroy(), 5),
    "closes a moment later": (socket) => setTimeout(() => socket.end(), 5),
    "writes and resets": (socket) => {
      socket.write("\x81\x7e", "latin1", () => socket.resetAndDestroy());
    },
    "waits, then closes": (socket) => setTimeout(() => socket.destroy(), 30),
  };

  it(
    "by the hundreds, by either side at every step, leave the proxy alive and no socket behind",
    { timeout: 120_000 },
    async () => {
      const kinds = Object.values(guests);
      let connections = 0;
      await using guest = await rawGuest((socket) => {
        const kind = kinds[connections % kinds.length];
        connections += 1;
        socket.once("data", () => kind?.(socket));
        // Half open as it is, a guest that sees its peer leave has to leave by itself.
        socket.once("end", () => socket.end());
      });
      await using run = await proxyTo(guest);
      const breakers = Object.values(clients);
      const openSockets = (): number =>
        process.getActiveResourcesInfo().filter((kind) => kind === "TCPSocketWrap").length;
      const before = openSockets();
      const rounds = 25;
      for (let round = 0; round < rounds; round += 1) {
        await Promise.all(
          Array.from({ length: 40 }, async (_, index) => {
            using client = rawClient(run.proxy.port, requestHead("GET /", WEBSOCKET));
            await new Promise((resolve) => {
              client.socket.once("connect", resolve);
            });
            breakers[(round + index) % breakers.length]?.(client.socket);
            await client.ended();
          }),
        );
      }
      expect(connections).toBeGreaterThan(rounds * 10);
      await eventually("all relays close", () => run.store.relays.size === 0 && guest.sockets.size === 0);
      await eventually("all sockets close", () => openSockets() <= before);
      using client = rawClient(run.proxy.port, requestHead("GET /healthz"));
      await client.until("204 No Content");
    },
  );

  it("show a guest's death as a broken connection", async () => {
    await using guest = await agreeing((socket) => {
      socket.write("frame", () => setTimeout(() => socket.resetAndDestroy(), 10));
    });
    await using run = await proxyTo(guest);
    using client = rawClient(run.proxy.port, requestHead("GET /", WEBSOCKET));
    await client.until("frame");
    expect((await client.ended()).error).toBe("ECONNRESET");
  });
});
