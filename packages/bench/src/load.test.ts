import { createServer } from "node:http";
import type { RequestListener, Server } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import { requestText } from "./http-messages.ts";
import { Connection, load } from "./load.ts";

async function serving(listener: RequestListener): Promise<AsyncDisposable & { address: string; server: Server }> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    server,
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const GET = requestText("GET", "/");

describe("a load", () => {
  it("sends as many requests as asked for, over as many connections", async () => {
    const sockets = new Set<unknown>();
    let requests = 0;
    await using server = await serving((request, response) => {
      sockets.add(request.socket);
      requests += 1;
      response.end("good");
    });
    const result = await load(server.address, { clients: 3, total: 20, status: 200, request: () => GET });
    expect(result).toMatchObject({ errors: 0 });
    expect(result.micros).toHaveLength(20);
    expect(requests).toBe(20);
    expect(sockets.size).toBe(3);
  });

  it("counts other statuses and broken connections as errors, and times only what went well", async () => {
    let requests = 0;
    await using server = await serving((request, response) => {
      requests += 1;
      if (requests === 2) {
        response.writeHead(500, { "content-length": 0 }).end();
      } else if (requests === 4) {
        request.socket.destroy();
      } else {
        response.end();
      }
    });
    const result = await load(server.address, { clients: 1, total: 10, status: 200, request: () => GET });
    expect(result.errors).toBe(2);
    expect(result.micros).toHaveLength(2);
  });

  it("rejects where nobody listens", async () => {
    const server = await serving(() => undefined);
    await server[Symbol.asyncDispose]();
    await expect(Connection.open(server.address)).rejects.toThrow("ECONNREFUSED");
  });

  it("rejects a request on a connection whose peer is gone", async () => {
    await using server = await serving((request) => void request.socket.destroy());
    using connection = await Connection.open(server.address);
    await expect(connection.send(GET)).rejects.toThrow();
  });
});
