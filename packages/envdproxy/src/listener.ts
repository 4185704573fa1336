import { createServer } from "node:net";
import type { AddressInfo, Server, Socket } from "node:net";
import { formatAddress, parseBindAddress } from "@org/sandbox-address";
import { EnvdProxyError } from "./errors.ts";

/** A bound address whose connections wait until somebody serves them. */
export interface Listener extends AsyncDisposable {
  /** `host:port` with the host as it was asked for and the port in use. */
  readonly address: string;
  readonly port: number;
  /** Hands over every connection: those that wait, then each new one. Throws `invalid_options` the second time. */
  accept(connection: (socket: Socket) => void): void;
  /** Stops accepting and destroys connections that nobody took. Connections that were handed over stay. */
  close(): Promise<void>;
}

/** Clients that start together connect together; what does not fit waits a second to try again. */
const BACKLOG = 4096;

function listen(server: Server, options: { port: number; host?: string; backlog: number }): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(options, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

/**
 * Listens on `host:port`, `:port` or `[ipv6]:port`. Rejects with `listen_failed`, naming the address, when it is
 * malformed, taken or not ours.
 */
export async function bindListener(address: string): Promise<Listener> {
  const where = parseBindAddress(address);
  if (where === undefined) {
    throw new EnvdProxyError("listen_failed", `listen on envd-proxy address ${JSON.stringify(address)}: not host:port`);
  }
  // Paused and half open: whoever serves decides when to read, and raw connections close one direction at a time.
  const server = createServer({
    pauseOnConnect: true,
    allowHalfOpen: true,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: 60_000,
  });
  const waiting = new Set<Socket>();
  let take: ((socket: Socket) => void) | undefined;

  server.on("connection", (socket) => {
    // A client may reset at any time, also while nobody has taken its connection.
    socket.on("error", () => undefined);
    if (take !== undefined) {
      take(socket);
      return;
    }
    waiting.add(socket);
    socket.once("close", () => waiting.delete(socket));
  });
  try {
    await listen(server, { ...where, backlog: BACKLOG });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new EnvdProxyError("listen_failed", `listen on envd-proxy address ${JSON.stringify(address)}: ${reason}`, {
      cause: error,
    });
  }
  // Running out of descriptors must not end the process; the backlog waits.
  server.on("error", () => undefined);
  const { port } = server.address() as AddressInfo;

  async function close(): Promise<void> {
    for (const socket of waiting) {
      socket.destroy();
    }
    waiting.clear();
    if (server.listening) {
      // Resolves with the last connection otherwise, and those belong to whoever took them.
      server.close();
    }
  }

  return {
    address: formatAddress(where.host, port),
    port,
    accept(connection) {
      if (take !== undefined) {
        throw new EnvdProxyError("invalid_options", "the listener is being served already");
      }
      take = connection;
      for (const socket of waiting) {
        connection(socket);
      }
      waiting.clear();
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}
