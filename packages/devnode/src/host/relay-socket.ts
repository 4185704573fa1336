import { chmodSync, linkSync, unlinkSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { readFirstLine } from "../shared/first-line.ts";
import { DevNodeError } from "../errors.ts";

/** A listening unix socket to hand to a child as an inherited descriptor. */
export interface HandedListener {
  readonly fd: number;
  /** Path that stays after {@link release}. */
  readonly path: string;
  /** Closes this process's end; the child keeps the socket. */
  release(): void;
}

/** Longest path of a unix socket everywhere we run (macOS allows 103 bytes, Linux 107). */
export const MAX_SOCKET_PATH = 103;

/**
 * Listens at `path` in this process's private folder. The guest gets the descriptor only, never the path: it can stop
 * answering, but it cannot put a link to somebody else's socket in its place.
 */
export function createHandedListener(path: string): Promise<HandedListener> {
  const draft = `${path}-`;
  const server: Server = createServer();
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(draft, () => {
      server.off("error", reject);
      server.on("error", () => undefined);
      try {
        chmodSync(draft, 0o600);
        // Closing removes the name it was bound to, so the socket gets a second one.
        linkSync(draft, path);
      } catch (cause) {
        // A full disk, for one. Thrown from here it would end the process.
        server.close();
        reject(new DevNodeError("guest_start_failed", "the listener has no name", { cause }));
        return;
      }
      const fd = descriptorOf(server);
      if (fd === undefined) {
        server.close();
        reject(new DevNodeError("guest_start_failed", "the listener has no descriptor"));
        return;
      }
      resolve({
        fd,
        path,
        release: () => {
          server.close();
          try {
            unlinkSync(draft);
          } catch {
            // close() removes it on its own.
          }
        },
      });
    });
  });
}

function descriptorOf(server: Server): number | undefined {
  // Node has no public name for it; when it ever goes, starting a guest says so.
  const handle: unknown = Reflect.get(server, "_handle");
  const fd: unknown = typeof handle === "object" && handle !== null && "fd" in handle ? handle.fd : undefined;
  return typeof fd === "number" && fd >= 0 ? fd : undefined;
}

const ANSWER_TIMEOUT_MS = 15_000;

/**
 * Opens a connection to a port of the guest behind `path`. Resolves after the guest's service has accepted. An abort
 * drops the connection.
 *
 * @throws DevNodeError `guest_unreachable`
 */
export async function dialRelay(path: string, port: number, signal?: AbortSignal): Promise<Socket> {
  signal?.throwIfAborted();
  const socket = connect({ path, allowHalfOpen: true });
  socket.on("error", () => socket.destroy());
  const onAbort = (): void => {
    socket.destroy();
  };
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    socket.write(`${port}\n`);
    if ((await readFirstLine(socket, 16, ANSWER_TIMEOUT_MS)) === "ok") {
      return socket;
    }
    throw new DevNodeError("guest_unreachable", "guest port unreachable");
  } catch (cause) {
    socket.destroy();
    signal?.throwIfAborted();
    throw cause instanceof DevNodeError
      ? cause
      : new DevNodeError("guest_unreachable", "guest port unreachable", { cause });
  } finally {
    signal?.removeEventListener("abort", onAbort);
  }
}
