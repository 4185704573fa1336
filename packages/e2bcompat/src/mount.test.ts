import { createServer } from "node:http";
import type { RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import { Hono } from "hono";
import { describe, expect, it, onTestFinished } from "vitest";
import { MAX_BODY_BYTES } from "./body.ts";
import { createFleet, KEY_1, read } from "./testing/fleet.ts";
import type { Fleet, Reply } from "./testing/fleet.ts";

async function listen(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const listener = (fetch: (request: Request, env: object) => Response | Promise<Response>): RequestListener =>
  getRequestListener(fetch, { overrideGlobalObjects: false });

/** Every way in which somebody else may host the API, as the base address under which it answers. */
const hosts: readonly (readonly [string, (fleet: Fleet) => Promise<string>])[] = [
  ["a plain node:http server", (fleet) => listen(listener(fleet.server.fetch))],
  [
    "route() in another application",
    async (fleet) => {
      const outer = new Hono().get("/e2b/own", (c) => c.text("own"));
      outer.route("/e2b", fleet.server.app);
      return `${await listen(listener(outer.fetch))}/e2b`;
    },
  ],
  [
    "route() at the root, behind middleware that sets headers",
    async (fleet) => {
      const outer = new Hono().use(async (c, next) => {
        await next();
        c.header("x-outer", "1");
      });
      outer.route("/", fleet.server.app);
      return listen(listener(outer.fetch));
    },
  ],
  [
    "mount() in another application",
    async (fleet) => {
      const outer = new Hono();
      outer.mount("/api/e2b", (request: Request) => fleet.server.fetch(request));
      return `${await listen(listener(outer.fetch))}/api/e2b`;
    },
  ],
  [
    "an application whose middleware reads bodies first",
    async (fleet) => {
      const outer = new Hono().use(async (c, next) => {
        await c.req.text();
        await next();
      });
      outer.route("/", fleet.server.app);
      return listen(listener(outer.fetch));
    },
  ],
];

describe.each(hosts)("the API in %s", (_what, host) => {
  const sender = (base: string) => {
    return async (method: string, path: string, body?: string, key = KEY_1): Promise<Reply> => {
      const headers = { "x-api-key": key };
      return read(await fetch(base + path, { method, headers, ...(body === undefined ? {} : { body }) }));
    };
  };

  it("serves a sandbox's whole life", async () => {
    const fleet = createFleet();
    const send = sender(await host(fleet));
    const made = await send("POST", "/v2/sandboxes", '{"templateID":"base"}');
    expect(made.status).toBe(201);
    const path = `/sandboxes/${made.body.sandboxID}`;
    expect((await send("GET", path)).body.state).toBe("running");
    expect((await send("POST", `${path}/pause`)).status).toBe(204);
    expect((await send("POST", `/v2${path}/connect`, "{}")).status).toBe(201);
    expect((await send("GET", "/v2/sandboxes?limit=1")).body).toHaveLength(1);
    expect((await send("GET", "/templates/aliases/e2b-rt%3A24.04")).status).toBe(200);
    expect((await send("DELETE", path)).status).toBe(204);
    expect((await send("DELETE", path)).body).toMatchObject({
      code: 404,
      message: expect.stringMatching(/^sandbox not found: it was killed at /) as string,
    });
  });

  it("answers every error in JSON", async () => {
    const fleet = createFleet();
    const send = sender(await host(fleet));
    const rows: readonly (readonly [Promise<Reply>, number])[] = [
      [send("GET", "/nope"), 404],
      [send("PUT", "/sandboxes", "{}"), 405],
      [send("GET", "/sandboxes", undefined, "wrong"), 401],
      [send("POST", "/sandboxes", "{"), 400],
      [send("POST", "/sandboxes", `{"pad":"${"x".repeat(MAX_BODY_BYTES)}"}`), 400],
      [send("GET", "/volumes"), 501],
    ];
    for (const [reply, status] of rows) {
      const { body } = await reply;
      expect(body).toStrictEqual({ code: status, message: expect.any(String) });
    }
  });

  it("notices a client that hangs up", async () => {
    const fleet = createFleet();
    const base = await host(fleet);
    const { promise: asked, resolve } = Promise.withResolvers<void>();
    const { promise: late, resolve: deliver } = Promise.withResolvers<void>();
    fleet.node.script("claim", async (call) => {
      resolve();
      await late;
      return fleet.node.claim(call.claim!);
    });
    const client = new AbortController();
    const headers = { "x-api-key": KEY_1 };
    const init = { method: "POST", headers, body: '{"templateID":"base"}', signal: client.signal };
    const answer = fetch(`${base}/sandboxes`, init).catch(() => "gone");
    await asked;
    client.abort();
    expect(await answer).toBe("gone");
    await expect
      .poll(() => fleet.lines.find((line) => line.message === "request")?.fields["status"], { timeout: 10_000 })
      .toBe(499);
    deliver();
    await fleet.server.settled();
    expect(fleet.node.sandboxes).toHaveLength(0);
  });
});

describe("an application around the API", () => {
  it("keeps its own routes and headers", async () => {
    const fleet = createFleet();
    const outer = new Hono().use(async (c, next) => {
      await next();
      c.header("x-outer", "1");
    });
    outer.get("/own", (c) => c.text("own"));
    outer.route("/", fleet.server.app);
    expect(await (await outer.request("/own")).text()).toBe("own");
    const health = await outer.request("/health");
    expect([health.status, health.headers.get("x-outer")]).toStrictEqual([204, "1"]);
  });

  it("keeps the global Request and Response", async () => {
    const before = [globalThis.Request, globalThis.Response];
    const end = new AbortController();
    const { server } = createFleet();
    await server.serve("127.0.0.1:0", { signal: end.signal, onListening: () => end.abort() });
    expect([globalThis.Request, globalThis.Response]).toStrictEqual(before);
  });
});
