import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import express from "express";
import type { ControlPlane } from "./control-plane.ts";
import { type Embedded, MOUNT } from "./embedded.ts";

/** Express: a listener like any other. It must come before body parsers, which would take the bodies away. */
export async function withExpress({ e2b }: ControlPlane): Promise<Embedded> {
  const app = express();
  const listener = getRequestListener(e2b.fetch, { overrideGlobalObjects: false });
  app.use(MOUNT, (request, response) => void listener(request, response));
  app.use(express.json());
  app.get("/", (_request, response) => void response.send("my own page"));
  const server = app.listen(0, "127.0.0.1");
  await new Promise<void>((resolve, reject) => {
    server.once("listening", resolve);
    server.once("error", reject);
  });
  server.keepAliveTimeout = 310_000;
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
