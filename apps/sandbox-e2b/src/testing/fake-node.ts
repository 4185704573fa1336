import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";

/** A node that answers what the mesh poller asks, and what a test scripts. */
export interface FakeNode extends AsyncDisposable {
  readonly address: string;
  /** Method and path of every request, in order. */
  readonly requests: readonly string[];
  /** Local ports of the client connections that carried requests, by path. */
  readonly clientPorts: ReadonlyMap<string, ReadonlySet<number>>;
}

/** Choices of {@link fakeNode}. */
export interface FakeNodeOptions {
  readonly token?: string;
  /** Leave `advertise_addr` out of `/v1/info`. */
  readonly anonymous?: boolean;
  /** Addresses of other nodes. */
  readonly peers?: readonly string[];
  /** Answers further requests; what it leaves alone is 404. */
  readonly handle?: (request: IncomingMessage, response: ServerResponse) => boolean;
  /** Stands in for the guest behind every relay. Without it there are no relays. */
  readonly relay?: (guest: Duplex) => void;
}

/** Starts a node on a free loopback port. */
export async function fakeNode(options: FakeNodeOptions = {}): Promise<FakeNode> {
  const { token = "", anonymous = false, peers = [], handle, relay } = options;
  const requests: string[] = [];
  const clientPorts = new Map<string, Set<number>>();
  let address = "";
  const server = createServer((request, response) => {
    const path = request.url ?? "";
    requests.push(`${request.method} ${path}`);
    const ports = clientPorts.get(path) ?? new Set();
    clientPorts.set(path, ports.add(request.socket.remotePort ?? 0));
    request.resume();
    const answer = (status: number, body: object): void => {
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    };
    if (token !== "" && request.headers.authorization !== `Bearer ${token}`) {
      answer(401, { error: "unauthorized" });
    } else if (path === "/v1/info") {
      answer(200, {
        ...(anonymous ? {} : { advertise_addr: address }),
        peers,
        pools: [
          { key: { template: "img", net: "none", size: "small" }, warm: 1, refilling: 0, target: 1, golden: true },
        ],
      });
    } else if (path === "/v1/sandboxes") {
      answer(200, { sandboxes: [] });
    } else if (handle?.(request, response) !== true) {
      answer(404, { error: "not found" });
    }
  });
  const relays = new Set<Duplex>();
  if (relay !== undefined) {
    server.on("upgrade", (_request, socket) => {
      relays.add(socket);
      socket.on("error", () => undefined);
      socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n");
      relay(socket);
    });
  }
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    address,
    requests,
    clientPorts,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      for (const socket of relays) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
