import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { KubeClient } from "./kube-client.ts";
import { KubeInventory, type KubeInventoryOptions } from "./kube-inventory.ts";
import { NodeInventoryApplier, nodeInventoryObject } from "./node-inventory-applier.ts";
import { readNodeInventory } from "./node-inventory.ts";
import { ManualTiming } from "./testing/manual-timing.ts";
import { eventLine, refuse, ScriptedApiServer } from "./testing/scripted-api-server.ts";

const SECOND = 1000;
const T0 = Date.parse("2026-09-28T12:00:00Z");
const PATH = "/apis/sandbox.cocoonstack.io/v1beta1/nodeinventories";

let server: ScriptedApiServer;
let client: KubeClient;
let life: AbortController;

beforeEach(async () => {
  server = await ScriptedApiServer.start();
  client = await KubeClient.connect({ source: "test", server: server.url, namespace: "default", user: {} });
  life = new AbortController();
});

afterEach(async () => {
  life.abort();
  await client.close();
  await server[Symbol.asyncDispose]();
});

function start(more: Partial<KubeInventoryOptions> = {}): Promise<KubeInventory> {
  return KubeInventory.start({ client, signal: life.signal, clock: () => T0, timing: new ManualTiming(), ...more });
}

function node(name: string, secondsAgo = 0, more: object = {}): object {
  const publishedAt = new Date(T0 - secondsAgo * SECOND).toISOString();
  return { node: name, address: `${name}:7777`, publishedAt, ...more };
}

function soon(check: () => void): Promise<void> {
  return vi.waitFor(check, { interval: 2, timeout: 10_000 });
}

describe("the inventory of a cluster", () => {
  it("has the nodes of the first list when it starts, and follows them", async () => {
    server.put("n1", node("n1", 0, { pools: [{ template: "base", warm: 1, target: 2 }] }));
    server.put("n2", node("n2"));
    const inventory = await start();
    expect(server.requests[0]).toMatchObject({ path: PATH });
    expect(inventory.listNodes()).toEqual(["n1", "n2"]);
    expect(inventory.nodeCapacity("n1")).toMatchObject({ address: "n1:7777", pools: [{ template: "base", warm: 1 }] });
    const watch = await server.nextWatch();
    const entries = [{ name: "default/a", id: "sb_1", phase: "Running" }];
    await watch.event("MODIFIED", { ...node("n2", 0, { entries }), metadata: { name: "n2", resourceVersion: "9" } });
    await soon(() => expect(inventory.nodeInventory("n2")?.entries).toMatchObject(entries));
    await watch.event("DELETED", { metadata: { name: "n1", resourceVersion: "10" } });
    await soon(() => expect(inventory.listNodes()).toEqual(["n2"]));
    expect(inventory.nodeInventory("n1")).toBeUndefined();
    expect(inventory.nodeCapacities().map((one) => one.node)).toEqual(["n2"]);
    await soon(() => expect(inventory.status).toMatchObject({ hasSynced: true, watching: true, lastError: undefined }));
  });

  it("shows a burst of changes in one go, and nothing new when nodes merely published again", async () => {
    const names = Array.from({ length: 50 }, (_, at) => `n${String(at).padStart(2, "0")}`);
    for (const name of names) {
      server.put(name, node(name, 20));
    }
    const inventory = await start();
    expect(inventory.listNodes()).toEqual(names);
    const { generation } = inventory;
    const watch = await server.nextWatch();
    const burst = (version: number, more: object): string =>
      names
        .map((name) =>
          eventLine("MODIFIED", { ...node(name, 0, more), metadata: { name, resourceVersion: `${version}${name}` } }),
        )
        .join("");
    await watch.send(burst(1, {}));
    await soon(() => expect(inventory.nodeInventory("n49")?.publishedAt).toEqual(new Date(T0)));
    expect(inventory.generation).toBe(generation);
    await watch.send(burst(2, { pools: [{ template: "t", warm: 1, target: 1 }] }));
    await soon(() => expect(inventory.nodeCapacity("n49")?.pools).toHaveLength(1));
    expect(inventory.generation).toBe(generation + 1);
  });

  it("leaves out a stale node until it publishes again", async () => {
    server.put("n1", node("n1"));
    server.put("n2", node("n2", 91));
    const inventory = await start();
    expect(inventory.listNodes()).toEqual(["n1"]);
    const watch = await server.nextWatch();
    await watch.event("MODIFIED", { ...node("n2"), metadata: { name: "n2", resourceVersion: "9" } });
    await soon(() => expect(inventory.listNodes()).toEqual(["n1", "n2"]));
  });

  it("stays readable while the server is gone, says why, and catches up when it is back", async () => {
    server.put("n1", node("n1"));
    const inventory = await start();
    await server.nextWatch();
    await server.die();
    await soon(() => expect(inventory.status.lastError).toMatchObject({ code: "unreachable" }));
    expect(inventory.listNodes()).toEqual(["n1"]);
    server.objects.clear();
    server.put("n2", node("n2"));
    server.watchScripts.push(refuse(410, "Expired"));
    await server.listen();
    await soon(() => expect(inventory.listNodes()).toEqual(["n2"]));
    await soon(() => expect(inventory.status.lastError).toBeUndefined());
  });

  it("ends with the signal and stays readable", async () => {
    server.put("n1", node("n1"));
    const inventory = await start();
    life.abort();
    await inventory.stopped;
    expect(inventory.listNodes()).toEqual(["n1"]);
    expect(inventory.status.watching).toBe(false);
  });
});

describe("a start", () => {
  it("that gets no list in time names the resource, the reason, and what may be missing", async () => {
    const timing = new ManualTiming();
    server.gate = (response, request) => {
      refuse(404, "NotFound")(response, request);
      return true;
    };
    const starting = start({ timing }).catch((error: unknown) => error);
    await soon(() => expect(server.requests.length).toBeGreaterThan(2));
    timing.pass(120_000);
    const error = await starting;
    expect(error).toMatchObject({ code: "not_synced", cause: { status: 404 } });
    expect(String(error)).toMatch(
      /no list of nodeinventories\.sandbox\.cocoonstack\.io within 120 s: .*404 NotFound.*CustomResourceDefinition installed\?/,
    );
    const { length } = server.requests;
    await new Promise(setImmediate);
    expect(server.requests).toHaveLength(length);
  });

  it("that is called off rejects with the reason", async () => {
    server.gate = () => true;
    const starting = start().catch((error: unknown) => error);
    await soon(() => expect(server.requests).toHaveLength(1));
    const reason = new Error("enough");
    life.abort(reason);
    expect(await starting).toBe(reason);
    await expect(start()).rejects.toBe(reason);
  });

  it("with options out of range is refused", async () => {
    await expect(start({ syncTimeoutMs: 0 })).rejects.toThrow(TypeError);
    await expect(start({ staleAfterMs: -1 })).rejects.toThrow(TypeError);
  });
});

describe("the applier", () => {
  it("writes objects as the publisher does, and takes them away", async () => {
    const view = readNodeInventory(
      {
        node: "n1",
        address: "n1:7777",
        pools: [{ template: "base", net: "none", size: "small", warm: 1, target: 2 }],
        templates: [
          { template: "t", contentDigest: "sha256:1", createdAt: "2026-09-28T11:00:00Z", labels: { a: "b" } },
        ],
        entries: [
          {
            name: "ns/a",
            id: "sb_1",
            phase: "Running",
            claimRef: "ns/a",
            deadline: "2026-09-28T13:00:00Z",
            claimedAt: "2026-09-28T11:00:00Z",
            claimMetadata: '{"k":"v"}',
            cpuCount: 2,
          },
        ],
      },
      0,
    )!;
    const applier = new NodeInventoryApplier({ client });
    const object = nodeInventoryObject(view, new Date(T0 + 123));
    await applier.apply(object);
    const [request] = server.requests;
    expect(request).toMatchObject({
      method: "PATCH",
      path: `${PATH}/n1`,
      query: { fieldManager: "cocoon-node-inventory-publisher", force: "true" },
    });
    expect(request?.headers["content-type"]).toBe("application/apply-patch+yaml");
    expect(JSON.parse(request?.body ?? "")).toMatchObject({
      apiVersion: "sandbox.cocoonstack.io/v1beta1",
      kind: "NodeInventory",
      metadata: { name: "n1" },
      publishedAt: "2026-09-28T12:00:00Z",
    });
    const inventory = await start();
    const { asOfMs: _, publishedAt, ...read } = inventory.nodeInventory("n1")!;
    expect(read).toEqual({ ...view, asOfMs: undefined, publishedAt: undefined });
    expect(publishedAt).toEqual(new Date(T0));

    await applier.delete("n1");
    expect(server.objects.size).toBe(0);
    await applier.delete("n1");
    server.gate = (response, seen) => {
      refuse(403, "Forbidden")(response, seen);
      return true;
    };
    await expect(applier.delete("n1")).rejects.toMatchObject({ code: "status", status: 403 });
    await expect(applier.apply(object)).rejects.toMatchObject({ code: "status", status: 403 });
  });
});
