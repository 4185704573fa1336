import { connect, type Socket } from "node:net";
import { createServer } from "node:tls";

import { selfSigned } from "./self-signed.ts";

/** What terminates TLS in front of a node that has none of its own. */
export interface TlsFront extends AsyncDisposable {
  /** `https://127.0.0.1:port`, what the node is to advertise. */
  readonly origin: string;
  /** PEM of the certificate that clients have to trust. */
  readonly cert: string;
  /** Connections since the start. */
  connections(): number;
  /** Changes to a certificate that nobody trusts, and ends every connection. */
  changeCertificate(): void;
  close(): Promise<void>;
}

/** Listens on a loopback port and forwards to `port` on the same interface. */
export async function startTlsFront(port: number): Promise<TlsFront> {
  const pair = selfSigned();
  const sockets = new Set<Socket>();
  let connections = 0;
  const server = createServer({ ...pair, ALPNProtocols: ["http/1.1"], allowHalfOpen: true }, (client) => {
    connections += 1;
    const node = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    for (const [socket, other] of [
      [client, node],
      [node, client],
    ] as const) {
      sockets.add(socket);
      socket.on("error", () => other.destroy());
      socket.once("close", () => {
        sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  });
  // Connections count from before their handshake, which an untrusting client never ends.
  server.on("connection", (raw: Socket) => {
    sockets.add(raw);
    raw.once("close", () => sockets.delete(raw));
  });
  // A client that does not trust the certificate hangs up inside the handshake.
  server.on("tlsClientError", (_error, socket) => socket.destroy());
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  const address = server.address();
  const close = async (): Promise<void> => {
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of sockets) {
      socket.destroy();
    }
    await closed;
  };
  return {
    origin: `https://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`,
    cert: pair.cert,
    connections: () => connections,
    changeCertificate: () => {
      server.setSecureContext(selfSigned());
      for (const socket of sockets) {
        socket.destroy();
      }
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}
