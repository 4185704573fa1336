import { createServer as createHttpServer } from "node:http";
import { getRequestListener, serve } from "@hono/node-server";
import { createServer } from "@org/e2bcompat";
import type { ServerOptions } from "@org/e2bcompat";
import { createStore } from "@org/scale";
import type { InventorySource, NodeInventory, SandboxStore } from "@org/scale";
import { createNodeClients } from "@org/scale/sandboxd";
import { createNodePool } from "@org/sandboxd-client";
import { Hono } from "hono";

/** A node that hands out sandboxes: what a fleet of the consumer would be. */
let claims = 0;
const node = createHttpServer((request, response) => {
  request.resume();
  request.on("end", () => {
    claims += 1;
    response.setHeader("content-type", "application/json");
    response.end(
      JSON.stringify({
        id: `sb_${String(claims).padStart(16, "0")}`,
        token: "0".repeat(32),
        deadline: new Date(Date.now() + 300_000),
      }),
    );
  });
});
await new Promise<void>((resolve) => node.listen(0, "127.0.0.1", resolve));
const address = `127.0.0.1:${portOf(node.address())}`;

/** An inventory of the consumer's own making. */
const view: NodeInventory = {
  node: address,
  address,
  pools: [{ template: "image:1", net: "none", size: "small", warm: 9, target: 9 }],
  templates: [],
  entries: [],
  asOfMs: 0,
};
const inventory: InventorySource = {
  generation: 1,
  listNodes: () => [address],
  nodeInventory: (key) => (key === address ? view : undefined),
  nodeCapacity: (key) => (key === address ? view : undefined),
  nodeCapacities: () => [view],
};

const pool = createNodePool();
const store: SandboxStore = createStore(inventory, { clients: createNodeClients({ pool, token: "fleet" }) });
const options: ServerOptions = {
  inventory,
  domain: "sandbox.test",
  keys: [{ key: "e2b_0123", namespace: "team" }],
  aliases: [{ alias: "base", image: "image:1", size: "small" }],
};
const sandboxes = createServer(store, options);

// In a Hono server of the consumer's own, beside its other routes.
const app = new Hono();
app.get("/hello", (c) => c.text("hello"));
app.route("/", sandboxes.app);
const mounted = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" });
await new Promise<void>((resolve) => mounted.on("listening", resolve));

// In a plain node:http server.
const plain = createHttpServer(getRequestListener(sandboxes.fetch));
await new Promise<void>((resolve) => plain.listen(0, "127.0.0.1", resolve));

const answers: unknown[] = [];
for (const server of [mounted, plain]) {
  const base = `http://127.0.0.1:${portOf(server.address())}`;
  const created = await fetch(`${base}/v2/sandboxes`, {
    method: "POST",
    headers: { "X-API-KEY": "e2b_0123", "content-type": "application/json" },
    body: JSON.stringify({ templateID: "base" }),
  });
  const refused = await fetch(`${base}/v2/sandboxes`, { method: "POST", body: "{}" });
  const unknown = await fetch(`${base}/nowhere`, { headers: { "X-API-KEY": "e2b_0123" } });
  answers.push({
    status: created.status,
    body: await created.json(),
    refused: refused.status,
    unknown: unknown.status,
  });
}
const hello = await fetch(`http://127.0.0.1:${portOf(mounted.address())}/hello`);
process.stdout.write(JSON.stringify({ node: process.version, answers, hello: await hello.text() }));

await pool.close();
for (const server of [mounted, plain, node]) {
  server.close();
  if ("closeAllConnections" in server) server.closeAllConnections();
}

function portOf(bound: ReturnType<typeof node.address>): number {
  if (bound === null || typeof bound === "string") throw new Error("not listening on a port");
  return bound.port;
}
