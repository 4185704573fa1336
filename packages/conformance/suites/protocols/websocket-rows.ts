import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { readFileSync } from "node:fs";
import { connect as connectPlain } from "node:net";
import { connect as connectTls } from "node:tls";

import { type ClientOptions, type RawData, WebSocket, WebSocketServer, type ServerOptions } from "ws";

import type { HarnessRow } from "../../src/harness-rows.ts";
import type { RunnerRig } from "./runner-rig.ts";

const LARGE = 16 << 20;
const ACCEPT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/** One way through the data plane. */
interface Way {
  readonly name: string;
  readonly tls: boolean;
}

const WAYS: readonly Way[] = [
  { name: "ws", tls: false },
  { name: "wss", tls: true },
];

function digest(data: RawData): string {
  return createHash("sha256")
    .update(Buffer.isBuffer(data) ? data : Buffer.concat([data].flat() as Buffer[]))
    .digest("hex");
}

async function next(socket: WebSocket): Promise<{ readonly data: Buffer; readonly binary: boolean }> {
  const [data, binary] = (await once(socket, "message")) as [Buffer, boolean];
  return { data, binary };
}

async function closed(socket: WebSocket): Promise<readonly [number, string]> {
  const [code, reason] = (await once(socket, "close")) as [number, Buffer];
  return [code, reason.toString()];
}

/** WebSockets with `ws` at both ends: a server in the sandbox, a client at the data plane. */
export function websocketRows(started: () => Promise<RunnerRig>): readonly HarnessRow[] {
  const servers = new Set<Server>();

  const listen = async (server: Server): Promise<number> => {
    servers.add(server);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return (server.address() as AddressInfo).port;
  };

  /** Starts a server in the sandbox and gives its port. */
  const serve = (onSocket: (socket: WebSocket) => void, options: ServerOptions = {}): Promise<number> => {
    const server = createServer((_request, response) => void response.writeHead(426).end());
    const sockets = new WebSocketServer({ maxPayload: 64 << 20, ...options, server });
    sockets.on("connection", (socket) => {
      socket.on("error", () => undefined);
      onSocket(socket);
    });
    return listen(server);
  };

  const dial = async (
    way: Way,
    port: number,
    protocols: string[] = [],
    more: ClientOptions = {},
  ): Promise<WebSocket> => {
    const rig = await started();
    const name = `${port}-${rig.host}`;
    const socket = new WebSocket(
      `${way.name}://127.0.0.1:${way.tls ? rig.tlsPort : rig.plainPort}/a/path?q=1`,
      protocols,
      {
        maxPayload: 64 << 20,
        headers: { host: name },
        ...(way.tls ? { ca: readFileSync(rig.certFile), servername: name } : {}),
        ...more,
      },
    );
    socket.on("error", () => undefined);
    return socket;
  };

  const open = async (
    way: Way,
    port: number,
    protocols: string[] = [],
    more: ClientOptions = {},
  ): Promise<WebSocket> => {
    const socket = await dial(way, port, protocols, more);
    await once(socket, "open");
    return socket;
  };

  /** A raw connection to the data plane, and the head of an upgrade for a port. */
  const raw = async (way: Way, port: number): Promise<{ readonly socket: Socket; readonly head: string }> => {
    const rig = await started();
    const name = `${port}-${rig.host}`;
    const at = { host: "127.0.0.1", port: way.tls ? rig.tlsPort : rig.plainPort };
    const socket: Socket = way.tls
      ? connectTls({ ...at, ca: readFileSync(rig.certFile), servername: name, ALPNProtocols: ["http/1.1"] })
      : connectPlain(at);
    await once(socket, way.tls ? "secureConnect" : "connect");
    const key = randomBytes(16).toString("base64");
    const fields = [
      "Connection: Upgrade",
      "Upgrade: websocket",
      `Sec-WebSocket-Key: ${key}`,
      "Sec-WebSocket-Version: 13",
    ];
    return { socket, head: [`GET / HTTP/1.1`, `Host: ${name}`, ...fields, "", ""].join("\r\n") };
  };

  const row = (id: string, title: string, run: (way: Way) => Promise<void>): HarnessRow => ({
    id,
    title,
    run: async () => {
      for (const way of WAYS) {
        await run(way).catch((cause: unknown) => {
          const why = cause instanceof Error ? cause.message : String(cause);
          throw new Error(`over ${way.name}: ${why}`, { cause });
        });
      }
      for (const server of servers) {
        server.closeAllConnections();
        server.close();
      }
      servers.clear();
    },
  });

  const echo = (socket: WebSocket): void => void socket.on("message", (data, binary) => socket.send(data, { binary }));

  return [
    row("WS1", "messages of both kinds, empty, and in fragments with a ping between them", async (way) => {
      const socket = await open(way, await serve(echo));
      for (const [data, binary] of [
        [Buffer.from("é漢🙂"), false],
        [Buffer.alloc(0), false],
        [Buffer.from([0, 255, 13, 10]), true],
        [Buffer.alloc(0), true],
      ] as const) {
        const answer = next(socket);
        socket.send(data, { binary });
        assert.deepEqual(await answer, { data, binary });
      }
      const answer = next(socket);
      socket.send("one ", { fin: false });
      socket.ping("between");
      socket.send("two ", { fin: false });
      socket.send("three", { fin: true });
      assert.equal((await answer).data.toString(), "one two three");
      socket.terminate();
    }),

    row("WS2", "close codes and reasons, both ways, and a connection that breaks", async (way) => {
      for (const code of [1000, 1001, 3000, 4999]) {
        const seen = Promise.withResolvers<readonly [number, string]>();
        const port = await serve((socket) => void closed(socket).then(seen.resolve));
        const socket = await open(way, port);
        socket.close(code, `because of ${code} é`);
        assert.deepEqual(await seen.promise, [code, `because of ${code} é`]);
      }
      for (const code of [1001, 1011, 4000]) {
        const socket = await dial(way, await serve((server) => server.close(code, `server ${code}`)));
        assert.deepEqual(await closed(socket), [code, `server ${code}`]);
      }
      const broken = await dial(way, await serve((server) => server.terminate()));
      assert.deepEqual(await closed(broken), [1006, ""]);
      const seen = Promise.withResolvers<readonly [number, string]>();
      const gone = await open(way, await serve((socket) => void closed(socket).then(seen.resolve)));
      gone.terminate();
      assert.deepEqual(await seen.promise, [1006, ""]);
    }),

    row("WS3", "pings and pongs, both ways", async (way) => {
      const heard = Promise.withResolvers<string>();
      const port = await serve((socket) => {
        socket.on("pong", (data) => heard.resolve(data.toString()));
        socket.ping("from the server");
      });
      const socket = await dial(way, port);
      assert.equal(await heard.promise, "from the server");
      const pong = once(socket, "pong");
      socket.ping("x".repeat(125));
      assert.equal(String((await pong)[0]), "x".repeat(125));
      socket.terminate();
    }),

    row("WS4", "frames of 16 MiB, both ways", async (way) => {
      const socket = await open(way, await serve(echo));
      const data = randomBytes(LARGE);
      const answer = next(socket);
      socket.send(data);
      assert.equal(digest((await answer).data), digest(data));
      socket.terminate();
    }),

    row("WS5", "compression is agreed between the ends, or not at all", async (way) => {
      const text = "squeeze me ".repeat(10_000);
      for (const [server, client, agreed] of [
        [true, true, "permessage-deflate"],
        [false, true, ""],
        [true, false, ""],
      ] as const) {
        const socket = await open(way, await serve(echo, { perMessageDeflate: server }), [], {
          perMessageDeflate: client,
        });
        assert.equal(socket.extensions, agreed);
        const answer = next(socket);
        socket.send(text);
        assert.equal((await answer).data.toString(), text);
        socket.terminate();
      }
    }),

    row("WS6", "subprotocols, path, query and own headers reach the server", async (way) => {
      let asked: IncomingMessage | undefined;
      const server = createServer();
      const sockets = new WebSocketServer({
        server,
        handleProtocols: (offered) => (offered.has("second") ? "second" : false),
      });
      sockets.on("connection", (_socket, request) => {
        asked = request;
      });
      const port = await listen(server);
      const headers = {
        host: `${port}-${(await started()).host}`,
        "x-own": "é".normalize("NFD").length.toString(),
        cookie: "a=b",
      };
      const socket = await open(way, port, ["first", "second"], { headers });
      assert.equal(socket.protocol, "second");
      assert.equal(asked?.url, "/a/path?q=1");
      assert.deepEqual([asked.headers["x-own"], asked.headers.cookie, asked.headers.host], ["2", "a=b", headers.host]);
      socket.terminate();
    }),

    row("WS7", "what comes in the packet of the switch is not lost, either way", async (way) => {
      const server = createServer();
      const text = (data: string): Buffer => Buffer.concat([Buffer.from([0x81, data.length]), Buffer.from(data)]);
      const heard = Promise.withResolvers<string>();
      server.on("upgrade", (request: IncomingMessage, socket: Socket, head: Buffer) => {
        socket.on("error", () => undefined);
        const accept = createHash("sha1").update(`${request.headers["sec-websocket-key"]}${ACCEPT}`).digest("base64");
        const answer = `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`;
        socket.write(Buffer.concat([Buffer.from(answer), text("early")]));
        let bytes = head;
        const look = (): void => void (bytes.length >= 9 && heard.resolve(bytes.subarray(6).toString()));
        socket.on("data", (piece: Buffer) => {
          bytes = Buffer.concat([bytes, piece]);
          look();
        });
        look();
      });
      const port = await listen(server);
      const socket = await dial(way, port);
      assert.equal((await next(socket)).data.toString(), "early");
      socket.terminate();
      const { socket: wire, head } = await raw(way, port);
      wire.on("error", () => undefined);
      // A masked frame (the mask is zero) right behind the request.
      wire.write(Buffer.concat([Buffer.from(head), Buffer.from([0x81, 0x83, 0, 0, 0, 0]), Buffer.from("abc")]));
      assert.equal(await heard.promise, "abc");
      wire.destroy();
    }),

    row("WS8", "an upgrade that the server refuses is refused with its own answer", async (way) => {
      const server = createServer();
      server.on("upgrade", (request: IncomingMessage, socket: Socket) => {
        const status = request.url?.startsWith("/a") === true ? "401 Unauthorized" : "404 Not Found";
        socket.end(
          `HTTP/1.1 ${status}\r\nWWW-Authenticate: Basic\r\nContent-Length: 6\r\nConnection: close\r\n\r\nno way`,
        );
      });
      const port = await listen(server);
      const refusal = async (
        at: number,
      ): Promise<{ status: number | undefined; text: string; head: IncomingMessage["headers"] }> => {
        const socket = await dial(way, at);
        const [, response] = (await once(socket, "unexpected-response")) as [unknown, IncomingMessage];
        const chunks: Buffer[] = [];
        for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk);
        return { status: response.statusCode, text: Buffer.concat(chunks).toString(), head: response.headers };
      };
      const refused = await refusal(port);
      assert.deepEqual([refused.status, refused.text, refused.head["www-authenticate"]], [401, "no way", "Basic"]);
      const { socket: wire, head } = await raw(way, port);
      wire.on("error", () => undefined);
      wire.write(head);
      const [first] = (await once(wire, "data")) as [Buffer];
      assert.match(first.toString(), /^HTTP\/1\.1 404 /);
      wire.destroy();
      const nobody = await refusal((await started()).free[0] ?? 1);
      assert.equal(nobody.status, 502, nobody.text);
      assert.equal((JSON.parse(nobody.text) as { code: number }).code, 502);
    }),

    row("WS9", "a hundred connections at once keep their messages apart and in order", async (way) => {
      const port = await serve(echo);
      await Promise.all(
        Array.from({ length: 100 }, async (_unused, index) => {
          const socket = await open(way, port);
          const seen: string[] = [];
          const done = new Promise<void>((resolve) => {
            socket.on("message", (data: Buffer) => {
              if (seen.push(data.toString()) === 50) resolve();
            });
          });
          for (let message = 0; message < 50; message += 1) socket.send(`${index}:${message}`);
          await done;
          assert.deepEqual(
            seen,
            Array.from({ length: 50 }, (_none, message) => `${index}:${message}`),
          );
          socket.terminate();
        }),
      );
    }),
  ];
}
