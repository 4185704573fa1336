import { connect, createServer, type Server, type Socket } from "node:net";
import { readFirstLine } from "../shared/first-line.ts";
import { joinStreams } from "../shared/join-streams.ts";

/** A unix socket refuses at once what does not fit its queue. */
const BACKLOG = 4096;
const LINE_TIMEOUT_MS = 10_000;
const CONNECT_TIMEOUT_MS = 10_000;

/**
 * The guest's end of the relay. Each connection names a port in its first line and gets `ok` once the guest's own
 * service has accepted, or `refused`; from then on it is that service's connection, byte for byte.
 *
 * The listener is made by the host and inherited, so nothing in the guest can put another socket in its place.
 */
export function startForwarder(fd: number): Promise<Server> {
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
    socket.on("error", () => socket.destroy());
    serve(socket).catch(() => socket.destroy());
  });
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ fd }, BACKLOG, () => {
      server.off("error", reject);
      server.on("error", () => undefined);
      resolve(server);
    });
  });
}

async function serve(socket: Socket): Promise<void> {
  const line = await readFirstLine(socket, 5, LINE_TIMEOUT_MS);
  const port = /^[0-9]{1,5}$/.test(line) ? Number(line) : 0;
  // Some servers bind to the IPv6 loopback alone when told "localhost".
  const service = (await dial("127.0.0.1", port)) ?? (await dial("::1", port));
  if (service === undefined || socket.destroyed) {
    service?.destroy();
    socket.end("refused\n");
    return;
  }
  socket.write("ok\n");
  joinStreams(socket, service);
}

function dial(host: string, port: number): Promise<Socket | undefined> {
  if (port < 1 || port > 65_535) {
    return Promise.resolve(undefined);
  }
  return new Promise((resolve) => {
    const service = connect({ host, port, allowHalfOpen: true, noDelay: true });
    const timer = setTimeout(() => service.destroy(new Error("connect timed out")), CONNECT_TIMEOUT_MS);
    service.once("connect", () => {
      clearTimeout(timer);
      service.off("error", onError);
      resolve(service);
    });
    const onError = (): void => {
      clearTimeout(timer);
      service.destroy();
      resolve(undefined);
    };
    service.once("error", onError);
  });
}
