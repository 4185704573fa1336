import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import type { ControlPlane } from "./control-plane.ts";
import { type Embedded, MOUNT } from "./embedded.ts";

/** `node:http`: requests below the mount go to the control plane, with the rest of their path. */
export async function withNodeHttp({ e2b }: ControlPlane): Promise<Embedded> {
  const listener = getRequestListener(e2b.fetch, { overrideGlobalObjects: false });
  const server = createServer((request, response) => {
    if (request.url?.startsWith(`${MOUNT}/`) === true) {
      request.url = request.url.slice(MOUNT.length);
      void listener(request, response);
      return;
    }
    response.end("my own page");
  });
  // E2B clients keep idle connections for five minutes.
  server.keepAliveTimeout = 310_000;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    apiUrl: `http://127.0.0.1:${port}${MOUNT}`,
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((done) => server.close(() => done()));
      server.closeIdleConnections();
      await closed;
    },
  };
}
