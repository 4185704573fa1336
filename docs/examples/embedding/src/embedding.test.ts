import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type DevNode, startDevNode } from "@org/devnode";
import { Sandbox } from "e2b-2.51";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ControlPlane, openControlPlane } from "./control-plane.ts";
import { withExpress } from "./express.ts";
import { withFastify } from "./fastify.ts";
import { withHono } from "./hono.ts";
import { withNodeHttp } from "./node-http.ts";

/** As they were before anything was served. */
const { Request: request, Response: response } = globalThis;
const apiKey = `e2b_${"5".repeat(40)}`;

let stateDir = "";
let node: DevNode | undefined;
let plane: ControlPlane | undefined;

beforeAll(async () => {
  stateDir = await mkdtemp(join(tmpdir(), "embedding-"));
  node = await startDevNode({ stateDir, token: "token-of-the-nodes", pools: [{ template: "base", warm: 4 }] });
  await node.warmed();
  plane = await openControlPlane({
    seed: node.address,
    token: "token-of-the-nodes",
    key: apiKey,
    envdSecret: "0123456789abcdef0123456789abcdef",
    domain: "sandbox.example.com",
  });
});

afterAll(async () => {
  await plane?.[Symbol.asyncDispose]();
  await node?.close();
  await rm(stateDir, { recursive: true, force: true });
});

describe.each([
  ["Hono", withHono],
  ["node:http", withNodeHttp],
  ["Fastify", withFastify],
  ["Express", withExpress],
])("the control plane in %s", (_name, embed) => {
  it("serves an unmodified SDK beside pages of its own", async () => {
    await using server = await embed(plane!);
    const connection = { apiKey, apiUrl: server.apiUrl, sandboxUrl: plane!.sandboxUrl };
    const sandbox = await Sandbox.create("base", { ...connection, metadata: { from: "an example" } });
    const { stdout } = await sandbox.commands.run("echo inside");
    expect(stdout).toBe("inside\n");
    const pages = Sandbox.list({ ...connection, query: { metadata: { from: "an example" } } });
    expect((await pages.nextItems()).map(({ sandboxId }) => sandboxId)).toEqual([sandbox.sandboxId]);
    await sandbox.kill();
    const page = await fetch(new URL("/", server.apiUrl));
    expect(await page.text()).toBe("my own page");
    // Longer than clients keep idle connections, so that they never write into one that is being closed.
    expect(page.headers.get("keep-alive")).toBe("timeout=310");
    expect(globalThis.Request).toBe(request);
    expect(globalThis.Response).toBe(response);
  });

  it("refuses a foreign key and answers unknown paths in JSON", async () => {
    await using server = await embed(plane!);
    const refused = await fetch(`${server.apiUrl}/v2/sandboxes`, { headers: { "X-API-Key": "e2b_no" } });
    expect([refused.status, ((await refused.json()) as { code: number }).code]).toEqual([401, 401]);
    const missing = await fetch(`${server.apiUrl}/nowhere`, { headers: { "X-API-Key": apiKey } });
    expect([missing.status, ((await missing.json()) as { code: number }).code]).toEqual([404, 404]);
  });
});
