import { getRequestListener } from "@hono/node-server";
import { fastify } from "fastify";
import type { ControlPlane } from "./control-plane.ts";
import { type Embedded, MOUNT } from "./embedded.ts";

/** Fastify: a plugin that hands its requests on with their bodies unread. */
export async function withFastify({ e2b }: ControlPlane): Promise<Embedded> {
  const app = fastify({ keepAliveTimeout: 310_000 });
  app.get("/", () => "my own page");
  const listener = getRequestListener(e2b.fetch, { overrideGlobalObjects: false });
  await app.register(
    (scope, _options, done) => {
      // Inside this plugin only: the control plane reads and judges bodies itself.
      scope.removeAllContentTypeParsers();
      scope.addContentTypeParser("*", (_request, _payload, parsed) => parsed(null));
      scope.all("/*", (request, reply) => {
        reply.hijack();
        const { raw } = request;
        raw.url = (raw.url ?? "").slice(MOUNT.length);
        void listener(raw, reply.raw);
      });
      done();
    },
    { prefix: MOUNT },
  );
  const address = await app.listen({ host: "127.0.0.1", port: 0 });
  return {
    apiUrl: `${address}${MOUNT}`,
    [Symbol.asyncDispose]: () => app.close(),
  };
}
