import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";

/** An HTTP proxy in front of one server that counts what passes. */
export interface RecordingProxy extends AsyncDisposable {
  /** `host:port` it listens at. */
  readonly address: string;
  /** Requests since the start or the last {@link reset}, by `METHOD /path` with ids left out. */
  counts(): ReadonlyMap<string, number>;
  reset(): void;
  close(): Promise<void>;
}

/** Replaces ids and ports in a path, so that calls of one kind count together. Queries are left out. */
export function callKind(method: string, target: string): string {
  const path = target.split("?")[0] ?? target;
  return `${method} ${path.replace(/\/(sb|ck)_[0-9a-z]+/g, "/{id}").replace(/\/ports\/\d+/, "/ports/{port}")}`;
}

/** Starts a recording proxy on a loopback port in front of `target` (`host:port`). */
export async function startRecordingProxy(target: string, port = 0): Promise<RecordingProxy> {
  const at = target.lastIndexOf(":");
  const upstream = { host: target.slice(0, at), port: Number(target.slice(at + 1)) };
  const counts = new Map<string, number>();
  const sockets = new Set<Duplex>();
  const count = (incoming: IncomingMessage): void => {
    const kind = callKind(incoming.method ?? "", incoming.url ?? "");
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  };

  const forward = (incoming: IncomingMessage, answer: ServerResponse): void => {
    count(incoming);
    const outgoing = httpRequest(
      { ...upstream, method: incoming.method, path: incoming.url, headers: incoming.headers },
      (reply) => {
        answer.writeHead(reply.statusCode ?? 502, reply.headers);
        reply.pipe(answer);
      },
    );
    outgoing.on("error", () => answer.destroy());
    answer.on("close", () => outgoing.destroy());
    incoming.pipe(outgoing);
  };

  const tunnel = (incoming: IncomingMessage, client: Duplex, head: Buffer): void => {
    count(incoming);
    const server: Socket = connect({ ...upstream, allowHalfOpen: true }, () => {
      const lines = [`${incoming.method} ${incoming.url} HTTP/1.1`];
      for (let index = 0; index < incoming.rawHeaders.length; index += 2) {
        lines.push(`${incoming.rawHeaders[index]}: ${incoming.rawHeaders[index + 1]}`);
      }
      server.write(`${lines.join("\r\n")}\r\n\r\n`);
      server.write(head);
      server.pipe(client);
      client.pipe(server);
    });
    sockets.add(server);
    sockets.add(client);
    const end = (): void => {
      server.destroy();
      client.destroy();
      sockets.delete(server);
      sockets.delete(client);
    };
    for (const socket of [server, client]) {
      socket.on("error", end);
      socket.on("close", end);
    }
  };

  const server = createServer({ keepAliveTimeout: 0, requestTimeout: 0 }, forward);
  server.on("upgrade", tunnel);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
  const address = server.address();
  const bound = typeof address === "object" && address !== null ? address.port : port;
  const close = async (): Promise<void> => {
    for (const socket of sockets) {
      socket.destroy();
    }
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return {
    address: `127.0.0.1:${bound}`,
    counts: () => new Map(counts),
    reset: () => counts.clear(),
    close,
    [Symbol.asyncDispose]: close,
  };
}
