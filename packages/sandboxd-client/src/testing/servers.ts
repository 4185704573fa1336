import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTcpServer, type AddressInfo, type Server, type Socket } from "node:net";
import { createServer as createTlsServer, type TLSSocket } from "node:tls";

/** A listening server of a test. Disposing it ends its connections too. */
export interface TestServer extends AsyncDisposable {
  readonly port: number;
  /** `127.0.0.1:port`. */
  readonly address: string;
  /** Open connections. */
  readonly sockets: ReadonlySet<Socket>;
  /** How many connections were ever accepted. */
  readonly accepted: number;
}

/** Listens with an HTTP handler that is given the whole request body. */
export function httpServer(
  handler: (request: IncomingMessage, response: ServerResponse, body: string) => void,
): Promise<TestServer> {
  const server = createHttpServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => handler(request, response, Buffer.concat(chunks).toString()));
  });
  return listen(server);
}

/** Listens for raw connections. With `halfOpen` the handler answers the other side's end itself. */
export function tcpServer(
  handler: (socket: Socket) => void,
  options: { readonly host?: string; readonly halfOpen?: boolean } = {},
): Promise<TestServer> {
  return listen(createTcpServer({ allowHalfOpen: options.halfOpen ?? false }, handler), options.host);
}

/**
 * Answers `body` to the first request of each connection and closes on the second, as a node does that gives up idle
 * connections at the very moment they are used. `seen` gets the request lines.
 */
export function fickleServer(body: string, seen: string[]): Promise<TestServer> {
  return tcpServer((socket) => {
    let answered = false;
    socket.on("data", (chunk: Buffer) => {
      const line = /^[A-Z]+ \S+/.exec(chunk.toString("latin1"));
      if (line !== null) {
        seen.push(line[0]);
      }
      if (answered) {
        socket.destroy();
        return;
      }
      answered = true;
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
    });
  });
}

/** Listens for TLS connections. */
export function tlsServer(
  identity: { readonly cert: string; readonly key: string },
  handler: (socket: TLSSocket) => void,
  allowHalfOpen = false,
): Promise<TestServer> {
  const options = { ...identity, allowHalfOpen, ALPNProtocols: ["h2", "http/1.1"] };
  return listen(createTlsServer(options, handler));
}

async function listen(server: Server, host = "127.0.0.1"): Promise<TestServer> {
  const sockets = new Set<Socket>();
  let accepted = 0;
  server.on("connection", (socket: Socket) => {
    accepted += 1;
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.on("close", () => sockets.delete(socket));
  });
  server.on("tlsClientError", () => undefined);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, host, resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    port,
    address: host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`,
    sockets,
    get accepted() {
      return accepted;
    },
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of sockets) {
        socket.destroy();
      }
      await closed;
    },
  };
}

/** An address on which nothing listens. */
export async function closedAddress(): Promise<string> {
  const server = await tcpServer(() => undefined);
  await server[Symbol.asyncDispose]();
  return server.address;
}
