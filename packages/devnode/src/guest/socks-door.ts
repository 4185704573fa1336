import { createServer, type Server, type Socket } from "node:net";
import { joinStreams } from "../shared/join-streams.ts";
import { TunnelRefused, type OpenTunnel } from "./tunnel.ts";

const VERSION = 5;
const HANDSHAKE_TIMEOUT_MS = 15_000;

/** Replies of RFC 1928 §6. */
const REPLY = { ok: 0, denied: 2, failed: 5, command: 7, address: 8 } as const;

/** A SOCKS 5 proxy (RFC 1928) with names resolved on the other side; CONNECT only, no authentication. */
export function createSocksDoor(open: OpenTunnel): Server {
  return createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    client.on("error", () => client.destroy());
    const timer = setTimeout(() => client.destroy(), HANDSHAKE_TIMEOUT_MS);
    serve(client, open, () => clearTimeout(timer)).catch(() => {
      clearTimeout(timer);
      client.destroy();
    });
  });
}

async function serve(client: Socket, open: OpenTunnel, handshakeDone: () => void): Promise<void> {
  const [version, methods = 0] = await take(client, 2);
  if (version !== VERSION) {
    client.destroy();
    return;
  }
  const offered = await take(client, methods);
  if (!offered.includes(0)) {
    client.end(Buffer.from([VERSION, 0xff]));
    return;
  }
  client.write(Buffer.from([VERSION, 0]));
  const [, command, , kind] = await take(client, 4);
  const host = await takeAddress(client, kind);
  if (host === undefined) {
    client.end(reply(REPLY.address));
    return;
  }
  const port = (await take(client, 2)).readUInt16BE();
  handshakeDone();
  if (command !== 1) {
    client.end(reply(REPLY.command));
    return;
  }
  let tunnel: Socket;
  try {
    tunnel = await open(host, port);
  } catch (error) {
    client.end(reply(error instanceof TunnelRefused && error.reason === "denied" ? REPLY.denied : REPLY.failed));
    return;
  }
  if (client.destroyed) {
    tunnel.destroy();
    return;
  }
  client.write(reply(REPLY.ok));
  joinStreams(client, tunnel);
}

async function takeAddress(client: Socket, kind: number | undefined): Promise<string | undefined> {
  if (kind === 1) {
    return (await take(client, 4)).join(".");
  }
  if (kind === 3) {
    const [length = 0] = await take(client, 1);
    return (await take(client, length)).toString("latin1");
  }
  if (kind === 4) {
    const bytes = await take(client, 16);
    return Array.from({ length: 8 }, (_, index) => bytes.readUInt16BE(index * 2).toString(16)).join(":");
  }
  return undefined;
}

function reply(code: number): Buffer {
  return Buffer.from([VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]);
}

/** Exactly `length` bytes; rejects when the client ends first. */
function take(socket: Socket, length: number): Promise<Buffer> {
  if (length === 0) {
    return Promise.resolve(Buffer.alloc(0));
  }
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      socket.off("readable", onReadable);
      socket.off("end", onEnd);
      socket.off("close", onEnd);
    };
    const onReadable = (): void => {
      const bytes = socket.read(length) as Buffer | null;
      if (bytes !== null && bytes.length === length) {
        stop();
        resolve(bytes);
      }
    };
    const onEnd = (): void => {
      stop();
      reject(new Error("the client left during the handshake"));
    };
    socket.on("readable", onReadable);
    socket.on("end", onEnd);
    socket.on("close", onEnd);
    onReadable();
  });
}
