import { type AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import type { ControlPlane } from "./control-plane.ts";
import type { Embedded } from "./embedded.ts";

/** Hono: a route of its own beside yours. */
export async function withHono({ e2b }: ControlPlane): Promise<Embedded> {
  const app = new Hono();
  app.get("/", (c) => c.text("my own page"));
  app.route("/e2b", e2b.app);
  const { promise, resolve } = Promise.withResolvers<AddressInfo>();
  // E2B clients keep idle connections for five minutes.
  const serverOptions = { keepAliveTimeout: 310_000 };
  const where = { hostname: "127.0.0.1", port: 0 };
  const server = serve({ fetch: app.fetch, ...where, serverOptions, overrideGlobalObjects: false }, resolve);
  const { port } = await promise;
  return {
    apiUrl: `http://127.0.0.1:${port}/e2b`,
    [Symbol.asyncDispose]: () => new Promise<void>((done) => server.close(() => done())),
  };
}
