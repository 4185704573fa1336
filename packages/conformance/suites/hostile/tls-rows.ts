import assert from "node:assert/strict";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { connect as connectTls, type TLSSocket } from "node:tls";

import type { HostileRig } from "../../src/hostile-rig.ts";
import { waitFor } from "../../src/polling.ts";
import { each, open, openTls, upTo } from "../../src/raw-talk.ts";
import { type HostileContext, type HostileRow, rigRow, times } from "./context.ts";
import { REQUEST_CASES } from "./request-cases.ts";
import { dataPlaneTable } from "./table-rows.ts";

/** A handshake and a head may take ten seconds each; the machine may be busy. */
const HANDSHAKE_LIMIT_MS = 10_000;
const LATE_MS = 8_000;
const AT_ONCE = 20;

/** What comes over TLS, on a rig of its own. */
export function tlsRows(context: HostileContext): readonly HostileRow[] {
  return [
    rigRow(
      context,
      "H82",
      `the ${REQUEST_CASES.length} requests of unclear framing over TLS: refused, or passed as what they are`,
      (rig) => dataPlaneTable(rig, openTls),
    ),
    rigRow(
      context,
      "H83",
      "handshakes that do not begin, stop half way or drip are given up after ten seconds, while others are served",
      (rig) => slowHandshakes(rig),
    ),
    rigRow(
      context,
      "H84",
      "TLS that is ended, reset or garbled at every step of handshake, request and answer leaves nothing behind",
      (rig) =>
        rig.flat(
          () => brokenTls(rig, 5),
          () => brokenTls(rig, times(context, 30, 10)),
        ),
    ),
  ];
}

/** The first bytes of a handshake. */
async function clientHello(): Promise<Buffer> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const hello = new Promise<Buffer>((resolve) => {
    server.once("connection", (socket) =>
      socket.once("data", (bytes) => {
        resolve(bytes);
        socket.destroy();
      }),
    );
  });
  const client = connectTls({
    port: (server.address() as AddressInfo).port,
    host: "127.0.0.1",
    ALPNProtocols: ["http/1.1"],
  });
  client.on("error", () => undefined);
  const bytes = await hello;
  server.close();
  return bytes;
}

async function slowHandshakes(rig: HostileRig): Promise<void> {
  const hello = await clientHello();
  const kinds: readonly (readonly [name: string, begin: () => Promise<Socket>])[] = [
    ["says nothing", () => open(rig.proxyPort)],
    ["half a hello", () => openAnd((socket) => socket.write(hello.subarray(0, hello.length / 2)))],
    ["a hello and nothing behind it", () => openAnd((socket) => socket.write(hello))],
    [
      "a byte at a time",
      () =>
        openAnd((socket) => {
          let at = 0;
          const timer = setInterval(() => socket.write(hello.subarray(at, (at += 1))), 300);
          socket.once("close", () => clearInterval(timer));
        }),
    ],
    ["a handshake and no head", () => openTls(rig.proxyPort)],
  ];
  async function openAnd(begin: (socket: Socket) => unknown): Promise<Socket> {
    const socket = await open(rig.proxyPort);
    begin(socket);
    return socket;
  }
  const begun = performance.now();
  const waiting = new Map<Socket, string>();
  for (const [name, begin] of kinds) {
    for (let count = 0; count < 20; count += 1) {
      const socket = await begin();
      // What is not read hides the end.
      socket.resume();
      waiting.set(socket, name);
      for (const end of ["end", "close"] as const) {
        socket.once(end, () => {
          waiting.delete(socket);
          socket.destroy();
        });
      }
    }
  }
  while (performance.now() - begun < HANDSHAKE_LIMIT_MS / 2) {
    await rig.echo();
    await delay(200);
  }
  assert.equal(waiting.size, kinds.length * 20, "closed before their time");
  const late = HANDSHAKE_LIMIT_MS + LATE_MS;
  await waitFor("an end of all of them", () => waiting.size === 0, late).catch(() =>
    assert.fail(`open after ${late} ms: ${[...new Set(waiting.values())].join(", ")}`),
  );
}

/** Waits for bytes, which must come. */
function some(socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once("data", () => resolve());
    socket.once("close", () => reject(new Error("closed without an answer")));
  });
}

/** A connection with the raw one below it. */
async function layered(rig: HostileRig): Promise<{ raw: Socket; tls: TLSSocket }> {
  const raw = await open(rig.proxyPort);
  const tls = connectTls({ socket: raw, ALPNProtocols: ["http/1.1"], rejectUnauthorized: false });
  tls.on("error", () => undefined);
  await new Promise((resolve) => tls.once("secureConnect", resolve));
  return { raw, tls };
}

const get = (rig: HostileRig, path: string): string => `GET ${path} HTTP/1.1\r\nHost: ${rig.host()}\r\n\r\n`;

/** How far a client comes before it leaves. */
const STEPS: readonly ((rig: HostileRig, hello: Buffer) => Promise<Socket>)[] = [
  (rig) => open(rig.proxyPort),
  async (rig, hello) => {
    const socket = await open(rig.proxyPort);
    socket.write(hello.subarray(0, 40));
    return socket;
  },
  async (rig, hello) => {
    const socket = await open(rig.proxyPort);
    socket.write(hello);
    await some(socket);
    return socket;
  },
  async (rig, hello) => {
    const socket = await open(rig.proxyPort);
    socket.write(hello);
    await some(socket);
    socket.write(Buffer.alloc(500, 0xff));
    return socket;
  },
  async (rig) => {
    const socket = await open(rig.proxyPort);
    socket.write(get(rig, "/plain"));
    return socket;
  },
  async (rig) => (await layered(rig)).raw,
  async (rig) => {
    const { raw, tls } = await layered(rig);
    tls.write(get(rig, "/half").slice(0, 20));
    return raw;
  },
  async (rig) => {
    const { raw, tls } = await layered(rig);
    tls.write(`POST /body HTTP/1.1\r\nHost: ${rig.host()}\r\nContent-Length: 100\r\n\r\nabc`);
    await delay(5);
    return raw;
  },
  async (rig) => {
    const { raw, tls } = await layered(rig);
    tls.write(get(rig, "/endless"));
    await some(tls);
    return raw;
  },
  async (rig) => {
    const { raw, tls } = await layered(rig);
    tls.write(get(rig, "/endless"));
    await some(tls);
    // A record that nobody sealed, in the middle of an answer.
    raw.write(Buffer.concat([Buffer.from("170303001f", "hex"), Buffer.alloc(31, 1)]));
    await delay(5);
    return raw;
  },
];

/** How a client leaves: with a FIN below TLS, which says nothing of an end, with a reset, or at once. */
const LEAVES: readonly ((socket: Socket) => void)[] = [
  (socket) => socket.end(),
  (socket) => socket.resetAndDestroy(),
  (socket) => socket.destroy(),
];

async function brokenTls(rig: HostileRig, rounds: number): Promise<void> {
  const hello = await clientHello();
  const block = Buffer.alloc(16_384, "x");
  rig.guest.on("endless", {
    onEnd: (_request, { socket }) => {
      socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
      const send = (): void => {
        while (!socket.destroyed && socket.write(`4000\r\n${block.toString()}\r\n`)) {
          // Until the relay is full.
        }
      };
      socket.on("drain", send);
      send();
    },
  });
  await each(upTo(rounds), AT_ONCE, async () => {
    for (const step of STEPS) {
      for (const leave of LEAVES) {
        const socket = await step(rig, hello);
        leave(socket);
        setTimeout(() => socket.destroy(), 3_000).unref();
      }
    }
  });
  await waitFor("an end of the guest's streams", () => rig.guest.open <= 8, HANDSHAKE_LIMIT_MS);
}
