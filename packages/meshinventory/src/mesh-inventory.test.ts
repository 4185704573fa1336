import { getEventListeners } from "node:events";
import type { Logger } from "@org/scale";
import { createNodePoller, createNodePool, type PollCallOptions } from "@org/sandboxd-client";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import * as fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { MeshInventory, MeshStartError, type MeshInventoryOptions, type NodeReader } from "./index.ts";
import { ALIAS_TICKS } from "./membership.ts";
import { FakeMesh, pool, row, type FakeNode } from "./testing/fake-mesh.ts";

const HOUR = 3_600_000;
const MAX_STALE = 3;

let life = new AbortController();
afterEach(() => {
  life.abort();
  life = new AbortController();
});

type Line = { readonly level: string; readonly message: string } & Record<string, unknown>;

function recorder(): { readonly lines: Line[]; readonly logger: Logger } {
  const lines: Line[] = [];
  const log = (level: string) => (fields: object, message: string) => {
    lines.push({ ...fields, level, message });
  };
  return { lines, logger: { debug: log("debug"), info: log("info"), warn: log("warn"), error: log("error") } };
}

function start(mesh: FakeMesh, seeds: readonly string[], more: Partial<MeshInventoryOptions> = {}) {
  return MeshInventory.start({ seeds, dial: mesh.dial, pollIntervalMs: HOUR, signal: life.signal, ...more });
}

async function startFailure(mesh: FakeMesh, seeds: readonly string[]): Promise<MeshStartError> {
  const error: unknown = await start(mesh, seeds).then(
    () => new Error("did start"),
    (reason: unknown) => reason,
  );
  if (!(error instanceof MeshStartError)) {
    throw error;
  }
  return error;
}

async function ticks(inventory: MeshInventory, count: number): Promise<void> {
  for (let tick = 0; tick < count; tick += 1) {
    await inventory.tick();
  }
}

function addresses(inventory: MeshInventory): string[] {
  return inventory.members().map((member) => member.address);
}

function failsOf(inventory: MeshInventory, address: string): number | undefined {
  return inventory.members().find((member) => member.address === address)?.fails;
}

/** Two nodes that name each other, a first. */
function pair(): { mesh: FakeMesh; a: FakeNode; b: FakeNode } {
  const mesh = new FakeMesh();
  return { mesh, a: mesh.add("a:1", ["b:1"]), b: mesh.add("b:1", ["a:1"]) };
}

describe("the mesh inventory", () => {
  it("M1: lists the seed's peer right after start, with rows and capacities", async () => {
    const { mesh, a, b } = pair();
    a.pools = [pool("base", 2, 3)];
    b.rows = [row("sb_1", "ns/s1")];
    const inventory = await start(mesh, ["a:1"]);
    expect(inventory.listNodes()).toEqual(["a:1", "b:1"]);
    expect(inventory.nodeInventory("b:1")?.entries.map((entry) => entry.name)).toEqual(["ns/s1"]);
    expect(inventory.nodeCapacity("a:1")).toMatchObject({
      address: "a:1",
      pools: [{ template: "base", warm: 2, target: 3 }],
    });
    expect(inventory.nodeCapacities().map((one) => one.node)).toEqual(["a:1", "b:1"]);
    expect(inventory.nodeInventory("c:1")).toBeUndefined();
    expect(inventory.nodeCapacity("c:1")).toBeUndefined();
  });

  it("M2: starts with one seed down, takes it in on recovery and keeps dialing it while it is silent", async () => {
    const mesh = new FakeMesh();
    mesh.add("a:1");
    const c = mesh.add("c:1");
    c.mode = { status: 503 };
    const inventory = await start(mesh, ["a:1", "c:1"]);
    expect(inventory.listNodes()).toEqual(["a:1"]);
    c.mode = "up";
    await inventory.tick();
    expect(inventory.listNodes()).toEqual(["a:1", "c:1"]);
    c.mode = { status: 503 };
    for (let tick = 1; tick <= MAX_STALE; tick += 1) {
      await inventory.tick();
      expect(inventory.listNodes()).toEqual(["a:1", "c:1"]);
    }
    await inventory.tick();
    expect(inventory.listNodes()).toEqual(["a:1"]);
    const asked = c.info;
    await inventory.tick();
    expect(c.info).toBe(asked + 1);
    c.mode = "up";
    await inventory.tick();
    expect(inventory.listNodes()).toEqual(["a:1", "c:1"]);
  });

  it("M3: a named peer that is silent leaves the list after four ticks and stays a member", async () => {
    const { mesh, b } = pair();
    const inventory = await start(mesh, ["a:1"]);
    b.mode = { status: 500 };
    await ticks(inventory, MAX_STALE);
    expect(inventory.listNodes()).toEqual(["a:1", "b:1"]);
    await ticks(inventory, 5);
    expect(inventory.listNodes()).toEqual(["a:1"]);
    expect(addresses(inventory)).toEqual(["a:1", "b:1"]);
  });

  it("M4: an unnamed peer that is silent is listed and a member for three ticks, then neither", async () => {
    const { mesh, a, b } = pair();
    const inventory = await start(mesh, ["a:1"]);
    a.peers = null;
    b.mode = { status: 500 };
    for (let tick = 1; tick <= MAX_STALE; tick += 1) {
      await inventory.tick();
      expect(inventory.listNodes()).toEqual(["a:1", "b:1"]);
      expect(addresses(inventory)).toEqual(["a:1", "b:1"]);
    }
    await inventory.tick();
    expect(inventory.listNodes()).toEqual(["a:1"]);
    expect(addresses(inventory)).toEqual(["a:1"]);
  });

  it("M4: an unnamed peer that answers stays a member", async () => {
    const { mesh, a } = pair();
    const inventory = await start(mesh, ["a:1"]);
    a.peers = [];
    await ticks(inventory, 6);
    expect(inventory.listNodes()).toEqual(["a:1", "b:1"]);
  });

  it("M5: a peer that restarts gracefully is listed throughout", async () => {
    const { mesh, a, b } = pair();
    const inventory = await start(mesh, ["a:1"]);
    const steps: [Partial<FakeNode>, Partial<FakeNode>][] = [
      [{ peers: [] }, { mode: { status: 503 } }],
      [{ peers: ["b:1"] }, {}],
      [{}, { mode: "up" }],
    ];
    for (const [forA, forB] of steps) {
      Object.assign(a, forA);
      Object.assign(b, forB);
      await inventory.tick();
      expect(inventory.listNodes()).toEqual(["a:1", "b:1"]);
    }
    expect(failsOf(inventory, "b:1")).toBe(0);
  });

  it.each([
    ["503", { mode: { status: 503 } }, "no-seed-answered", "meshinventory: no seed answered: status 503"],
    [
      "401",
      { mode: { status: 401 } },
      "unauthorized",
      "meshinventory: seed a:1 refused the token; GET /v1/info needs the fleet root api_token: status 401",
    ],
    [
      "403",
      { mode: { status: 403 } },
      "unauthorized",
      "meshinventory: seed a:1 refused the token; GET /v1/info needs the fleet root api_token: status 403",
    ],
    [
      "401 for the index",
      { indexStatus: 401 },
      "unauthorized",
      "meshinventory: seed a:1 refused the token; GET /v1/info needs the fleet root api_token: status 401",
    ],
    [
      "no advertise_addr",
      { advertise: undefined },
      "no-advertise-addr",
      "meshinventory: seed a:1: GET /v1/info reports no advertise_addr; a mesh node must advertise a routable host",
    ],
    [
      "an empty advertise_addr",
      { advertise: "" },
      "no-advertise-addr",
      "meshinventory: seed a:1: GET /v1/info reports no advertise_addr; a mesh node must advertise a routable host",
    ],
    [
      "an advertise_addr that is none",
      { advertise: "http://x/y z" },
      "no-seed-answered",
      "meshinventory: no seed answered: advertises an address that cannot be dialed: not an address",
    ],
  ] as const)("M6: does not start when the only seed answers %s", async (_name, change, code, message) => {
    const mesh = new FakeMesh();
    Object.assign(mesh.add("a:1"), change);
    const error = await startFailure(mesh, ["a:1"]);
    expect(error).toMatchObject({ code, message, seed: "a:1" });
  });

  it("M6: does not start when a seed refuses the token, though others answer; the first in flag order is named", async () => {
    const mesh = new FakeMesh();
    mesh.add("a:1");
    mesh.add("b:1").advertise = undefined;
    mesh.add("c:1").mode = { status: 401 };
    expect(await startFailure(mesh, ["a:1", "c:1", "b:1"])).toMatchObject({ code: "unauthorized", seed: "c:1" });
    expect(await startFailure(mesh, ["a:1", "b:1", "c:1"])).toMatchObject({ code: "no-advertise-addr", seed: "b:1" });
  });

  it("M6: does not start without a seed, and names the first one when none answers", async () => {
    expect(await startFailure(new FakeMesh(), [])).toMatchObject({
      code: "no-seeds",
      message: "meshinventory: at least one seed is required",
    });
    const error = await startFailure(new FakeMesh(), ["x:1", "y:1"]);
    expect(error).toMatchObject({ seed: "x:1", message: "meshinventory: no seed answered: connection refused" });
  });

  it("M7: a discovered peer without an advertise_addr is left out", async () => {
    const { mesh, b } = pair();
    b.advertise = undefined;
    const inventory = await start(mesh, ["a:1"]);
    expect(inventory.listNodes()).toEqual(["a:1"]);
    expect(failsOf(inventory, "b:1")).toBe(1);
  });

  it("M8: a seed under another spelling is polled once a tick, and is the member kept", async () => {
    const { mesh, a } = pair();
    mesh.routes.set("localhost:1", a);
    const inventory = await start(mesh, ["localhost:1"]);
    await ticks(inventory, 3);
    const before = a.info;
    await inventory.tick();
    expect(a.info).toBe(before + 1);
    expect(inventory.listNodes()).toEqual(["a:1", "b:1"]);
    expect(addresses(inventory)).toEqual(["localhost:1", "b:1"]);
  });

  it("M9: when everybody is silent the list empties after four ticks and the members stay", async () => {
    const { mesh, a, b } = pair();
    const inventory = await start(mesh, ["a:1"]);
    a.mode = { status: 500 };
    b.mode = { status: 500 };
    await ticks(inventory, MAX_STALE);
    expect(inventory.listNodes()).toEqual(["a:1", "b:1"]);
    await ticks(inventory, 4);
    expect(inventory.listNodes()).toEqual([]);
    expect(inventory.nodeCapacities()).toEqual([]);
    expect(addresses(inventory)).toEqual(["a:1", "b:1"]);
    a.mode = "up";
    await inventory.tick();
    expect(inventory.listNodes()).toEqual(["a:1"]);
  });

  it("M10: a seed that hangs does not keep the others from starting", async () => {
    const mesh = new FakeMesh();
    mesh.add("a:1").mode = "hangs";
    mesh.add("b:1");
    const inventory = await start(mesh, ["a:1", "b:1"], { pollIntervalMs: 800 });
    expect(inventory.listNodes()).toEqual(["b:1"]);
  });

  it("M11: a seed that is back takes its place from its gossiped spelling", async () => {
    const { mesh, a } = pair();
    const inventory = await start(mesh, ["localhost:1", "b:1"]);
    expect(addresses(inventory)).toEqual(["localhost:1", "b:1", "a:1"]);
    mesh.routes.set("localhost:1", a);
    await inventory.tick();
    expect(addresses(inventory)).toEqual(["localhost:1", "b:1"]);
    const before = a.info;
    await ticks(inventory, 2);
    expect(a.info).toBe(before + 2);
    expect(inventory.listNodes()).toEqual(["a:1", "b:1"]);
  });

  it("M12: a seed given twice is one member, and its peers are discovered at start", async () => {
    const { mesh, a } = pair();
    const inventory = await start(mesh, ["a:1", "a:1"]);
    expect(inventory.listNodes()).toEqual(["a:1", "b:1"]);
    expect([a.info, a.sandboxes]).toEqual([2, 2]);
  });

  it("M13: when a front dies, the node's own address goes on serving its key", async () => {
    const { mesh, a, b } = pair();
    mesh.routes.set("front:1", a);
    const inventory = await start(mesh, ["front:1", "b:1"]);
    expect(addresses(inventory)).toEqual(["front:1", "b:1"]);
    mesh.routes.delete("front:1");
    b.peers = ["a:1"];
    a.rows = [row("sb_new", "ns/new")];
    await ticks(inventory, 2);
    expect(inventory.nodeInventory("a:1")?.entries.map((entry) => entry.id)).toEqual(["sb_new"]);
    await ticks(inventory, MAX_STALE + 2);
    expect(inventory.listNodes()).toEqual(["a:1", "b:1"]);
  });

  it("M14: many members that hang do not keep the healthy ones from being read", async () => {
    const mesh = new FakeMesh();
    const names = Array.from({ length: 36 }, (_, at) => `n${at + 10}:1`);
    for (const [at, name] of names.entries()) {
      mesh.add(name).mode = at % 3 === 0 ? "up" : "hangs";
    }
    const inventory = await start(mesh, names, { pollIntervalMs: 800 });
    expect(inventory.listNodes()).toEqual(names.filter((_, at) => at % 3 === 0));
  });

  it("M14: members that hang tick after tick take nothing from the beat of the others", async () => {
    const mesh = new FakeMesh();
    const names = Array.from({ length: 36 }, (_, at) => `n${at + 10}:1`);
    for (const [at, name] of names.entries()) {
      mesh.add(name).mode = at % 3 === 0 ? "up" : "hangs";
    }
    const healthy = names.filter((_, at) => at % 3 === 0);
    const inventory = await start(mesh, names, { pollIntervalMs: 300, maxStaleTicks: 100 });
    const asked = (name: string): number => mesh.routes.get(name)?.info ?? 0;
    await expect.poll(() => asked("n11:1"), { timeout: 20_000 }).toBeGreaterThan(4);
    for (const name of names) {
      expect(Math.abs(asked(name) - asked("n11:1"))).toBeLessThan(2);
    }
    expect(inventory.members().filter((member) => member.fails === 0)).toHaveLength(healthy.length);
    expect(inventory.listNodes()).toEqual(healthy);
  });

  it("M15: a peer that is back under a new address is polled once a tick though both spellings are gossiped", async () => {
    const { mesh, a, b } = pair();
    const inventory = await start(mesh, ["a:1"]);
    mesh.routes.set("new:1", b);
    b.advertise = "new:1";
    b.mode = { status: 503 };
    a.peers = ["b:1", "new:1"];
    await inventory.tick();
    b.mode = "up";
    await ticks(inventory, 2);
    const before = b.info;
    await ticks(inventory, 4);
    expect(b.info).toBe(before + 4);
    expect(inventory.listNodes()).toEqual(["a:1", "new:1"]);
    expect(addresses(inventory)).toEqual(["a:1", "new:1"]);
  });
});

describe("the start", () => {
  it("lists nobody whom only the second tick reveals, and the next tick does", async () => {
    const mesh = new FakeMesh();
    mesh.add("a:1", ["b:1"]);
    mesh.add("b:1", ["c:1"]);
    mesh.add("c:1");
    const inventory = await start(mesh, ["a:1"]);
    expect(inventory.listNodes()).toEqual(["a:1", "b:1"]);
    expect(addresses(inventory)).toEqual(["a:1", "b:1", "c:1"]);
    await inventory.tick();
    expect(inventory.listNodes()).toEqual(["a:1", "b:1", "c:1"]);
  });

  it("fails for nothing that its second tick meets", async () => {
    const { mesh, b } = pair();
    b.mode = { status: 401 };
    const inventory = await start(mesh, ["a:1"]);
    expect(inventory.listNodes()).toEqual(["a:1"]);
  });

  it("runs no second tick when nobody joined", async () => {
    const mesh = new FakeMesh();
    const a = mesh.add("a:1", ["a:1"]);
    await start(mesh, ["a:1"]);
    expect([a.info, a.sandboxes]).toEqual([1, 1]);
  });

  it("takes 0 for the default interval", async () => {
    const { mesh } = pair();
    const inventory = await start(mesh, ["a:1"], { pollIntervalMs: 0 });
    expect(inventory.listNodes()).toEqual(["a:1", "b:1"]);
  });
});

describe("a tick", () => {
  it("asks each member for its info and its sandboxes, once", async () => {
    const { mesh, a, b } = pair();
    const inventory = await start(mesh, ["a:1"]);
    const before = [a.info, a.sandboxes, b.info, b.sandboxes];
    await inventory.tick();
    expect([a.info, a.sandboxes, b.info, b.sandboxes]).toEqual(before.map((count) => count + 1));
  });

  it("ignores pools and peers of a member whose index fails", async () => {
    const { mesh, a } = pair();
    const inventory = await start(mesh, ["a:1"]);
    a.indexStatus = 500;
    a.peers = ["b:1", "c:1"];
    a.pools = [pool("base", 9, 9)];
    await inventory.tick();
    expect(addresses(inventory)).toEqual(["a:1", "b:1"]);
    expect(inventory.nodeCapacity("a:1")?.pools).toEqual([]);
  });

  it("that was called while another runs comes after it", async () => {
    const { mesh, a } = pair();
    const inventory = await start(mesh, ["a:1"]);
    const before = a.info;
    await Promise.all([inventory.tick(), inventory.tick(), inventory.tick()]);
    expect(a.info).toBe(before + 3);
  });

  it("that is cut short by the signal counts, logs and publishes nothing", async () => {
    const { mesh, a } = pair();
    const { lines, logger } = recorder();
    const inventory = await start(mesh, ["a:1"], { logger });
    const { generation } = inventory;
    const [before, members, logged] = [inventory.nodeInventory("a:1"), inventory.members(), lines.length];
    a.mode = "hangs";
    const begun = a.info;
    const running = inventory.tick();
    await expect.poll(() => a.info, { timeout: 10_000 }).toBe(begun + 1);
    life.abort();
    await running;
    await inventory.stopped;
    expect(inventory.generation).toBe(generation);
    expect(inventory.nodeInventory("a:1")).toBe(before);
    expect(inventory.members()).toEqual(members);
    expect(lines).toHaveLength(logged);
    expect(getEventListeners(life.signal, "abort")).toEqual([]);
    const asked = a.info;
    await inventory.tick();
    expect(a.info).toBe(asked);
  });

  it("publishes what others said while one member hangs", async () => {
    const { mesh, a, b } = pair();
    const inventory = await start(mesh, ["a:1"]);
    b.mode = "hangs";
    a.rows = [row("sb_1", "ns/s1")];
    const running = inventory.tick();
    await expect.poll(() => inventory.nodeInventory("a:1")?.entries.length, { timeout: 10_000 }).toBe(1);
    expect(inventory.listNodes()).toEqual(["a:1", "b:1"]);
    expect(failsOf(inventory, "b:1")).toBe(0);
    life.abort();
    await running;
  });

  it("publishes what the others said at once when only those are silent that were so before", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    try {
      const { mesh, a, b } = pair();
      const inventory = await start(mesh, ["a:1"]);
      b.mode = { status: 500 };
      await inventory.tick();
      b.mode = "hangs";
      a.rows = [row("sb_1", "ns/s1")];
      const running = inventory.tick();
      await expect.poll(() => inventory.nodeInventory("a:1")?.entries.length, { timeout: 10_000 }).toBe(1);
      expect(failsOf(inventory, "b:1")).toBe(1);
      life.abort();
      await running;
    } finally {
      vi.useRealTimers();
    }
  });

  it("that was refused for its token counts as any other failure once the mesh is up", async () => {
    const { mesh, a, b } = pair();
    const inventory = await start(mesh, ["a:1"]);
    a.mode = { status: 401 };
    b.mode = { status: 401 };
    await ticks(inventory, MAX_STALE);
    expect(inventory.listNodes()).toEqual(["a:1", "b:1"]);
    await inventory.tick();
    expect(inventory.listNodes()).toEqual([]);
    a.mode = "up";
    b.mode = "up";
    await inventory.tick();
    expect(inventory.listNodes()).toEqual(["a:1", "b:1"]);
  });

  it.each([
    ["a port that no node has", "b:0"],
    ["a path", "http://b:1/v1"],
    ["another scheme", "ftp://b:1"],
    ["a space", "b c:1"],
  ])("does not start when one of the seeds carries %s, though others answer", async (_name, seed) => {
    const mesh = new FakeMesh();
    mesh.add("a:1");
    await using nodes = createNodePool();
    const dial = (address: string): NodeReader =>
      address === "a:1" ? mesh.dial(address) : createNodePoller({ address, pool: nodes });
    const error: unknown = await start(mesh, ["a:1", seed], { dial }).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: "bad-seed", seed, message: expect.stringContaining(JSON.stringify(seed)) });
  });

  it("does not show the credentials of a seed, nor a token that fits into no request", async () => {
    await using nodes = createNodePool();
    for (const options of [{ seeds: ["http://user:pass@b:1"] }, { seeds: ["b:1"], token: "user pass" }]) {
      const error: unknown = await MeshInventory.start({ ...options, pool: nodes, signal: life.signal }).catch(
        (reason: unknown) => reason,
      );
      expect(error).toMatchObject({ code: "bad-seed" });
      expect(String(error)).not.toMatch(/user|pass/);
    }
  });

  it("is not held by a reader that ignores its signal", async () => {
    const mesh = new FakeMesh();
    mesh.add("a:1");
    const deaf = { info: () => new Promise<Buffer>(() => undefined), sandboxes: () => Promise.reject(new Error("no")) };
    const inventory = await start(mesh, ["a:1", "deaf:1"], {
      pollIntervalMs: 500,
      dial: (address: string) => (address === "deaf:1" ? deaf : mesh.dial(address)),
    });
    expect(inventory.listNodes()).toEqual(["a:1"]);
  });

  it("logs members that did not answer, and who joins, leaves and changes its address", async () => {
    const { mesh, a, b } = pair();
    const { lines, logger } = recorder();
    const inventory = await start(mesh, ["a:1"], { logger });
    b.mode = { status: 500 };
    a.peers = [];
    await ticks(inventory, 4);
    a.advertise = "a2:1";
    await inventory.tick();
    const func = "meshinventory.tick";
    const err = "status 500";
    const silent = { level: "warn", func, message: "mesh member did not answer", addr: "b:1", err };
    expect(lines).toEqual([
      { level: "info", func, message: "mesh member joined", addr: "b:1" },
      ...[1, 2, 3, 4].map((fails) => ({ ...silent, fails })),
      { level: "info", func, message: "mesh member left", addr: "b:1" },
      { level: "info", func, message: "mesh member changed its address", addr: "a:1", from: "a:1", node: "a2:1" },
    ]);
    expect(inventory.listNodes()).toEqual(["a2:1"]);
  });

  it("never dials gossip that is no address", async () => {
    const { mesh, a } = pair();
    a.peers = ["", "not an address", "b:1", "http://x/path"];
    const { lines, logger } = recorder();
    const inventory = await start(mesh, ["a:1"], { logger });
    expect(addresses(inventory)).toEqual(["a:1", "b:1"]);
    expect(lines.filter((line) => line.level === "debug").map((line) => line["addr"])).toContain("not an address");
  });
});

describe("a snapshot", () => {
  it("keeps its generation and its lists while nothing changes, and becomes younger", async () => {
    const { mesh, a, b } = pair();
    a.rows = [row("sb_1", "ns/s1"), row("sb_2", "ns/s2")];
    a.pools = [pool("base", 2, 3)];
    const inventory = await start(mesh, ["a:1"]);
    const { generation } = inventory;
    const before = inventory.nodeInventory("a:1");
    const [nodes, capacities] = [inventory.listNodes(), inventory.nodeCapacities()];
    a.rows = [row("sb_2", "ns/s2"), row("sb_1", "ns/s1")];
    b.extra = { claimed: 7 };
    await inventory.tick();
    expect(inventory.generation).toBe(generation);
    expect(inventory.listNodes()).toBe(nodes);
    expect(inventory.nodeCapacities()).toBe(capacities);
    const after = inventory.nodeInventory("a:1");
    expect(after?.entries).toBe(before?.entries);
    expect(after?.asOfMs).toBeGreaterThan(before?.asOfMs ?? Infinity);
  });

  it("grows its generation by each change of rows, pools, templates and nodes, and keeps unchanged entries", async () => {
    const { mesh, a, b } = pair();
    a.rows = [row("sb_1", "ns/s1"), row("sb_2", "ns/s2")];
    const inventory = await start(mesh, ["a:1"]);
    const first = inventory.nodeInventory("a:1")?.entries[0];
    let { generation } = inventory;
    const template = { key: { template: "t", net: "none", size: "small" }, content_digest: "sha256:1" };
    const changes: (() => unknown)[] = [
      () => (a.rows = [row("sb_1", "ns/s1"), row("sb_2", "ns/s2", { hibernated: true })]),
      () => (a.rows = [row("sb_1", "ns/s1")]),
      () => (a.rows = [row("sb_1", "ns/s1"), row("sb_3", "ns/s3")]),
      () => (a.pools = [pool("base", 1, 1)]),
      () => (a.pools = [pool("base", 0, 1)]),
      () => (a.templates = [template]),
      () => (b.advertise = "b2:1"),
    ];
    for (const change of changes) {
      change();
      await inventory.tick();
      expect(inventory.generation).toBeGreaterThan(generation);
      generation = inventory.generation;
    }
    expect(inventory.nodeInventory("a:1")?.entries[0]).toBe(first);
    expect(inventory.nodeCapacity("a:1")?.templates).toMatchObject([{ template: "t", contentDigest: "sha256:1" }]);
  });

  it("that was published is never changed", async () => {
    const { mesh, a } = pair();
    a.rows = [row("sb_1", "ns/s1")];
    const inventory = await start(mesh, ["a:1"]);
    const before = inventory.nodeInventory("a:1");
    a.rows = [];
    await inventory.tick();
    expect(before?.entries).toHaveLength(1);
    expect(inventory.nodeInventory("a:1")?.entries).toEqual([]);
    expect(Object.isFrozen(before?.entries)).toBe(true);
    expect(() => (inventory.listNodes() as string[]).push("x")).toThrow(TypeError);
    expect(() => (inventory.nodeCapacities() as unknown[]).push("x")).toThrow(TypeError);
  });
});

describe("a history of any kind", () => {
  const NAMES = ["a:1", "b:1", "c:1", "d:1"];
  const address = fc.constantFrom(...NAMES);
  const rows = fc
    .uniqueArray(fc.tuple(fc.nat(6), fc.boolean()), { selector: ([id]) => id, maxLength: 6 })
    .map((list) => list.map(([id, hibernated]) => row(`sb_${id}`, `ns/s${id}`, { hibernated })));
  const change = fc.oneof(
    fc.record({ at: address, rows }),
    fc.record({
      at: address,
      pools: fc.array(
        fc.nat(3).map((warm) => pool("base", warm, 3)),
        { maxLength: 2 },
      ),
    }),
    fc.record({ at: address, mode: fc.constantFrom<FakeNode["mode"]>("up", { status: 500 }, { status: 401 }) }),
    fc.record({ at: address, indexStatus: fc.constantFrom(undefined, 503) }),
    fc.record({ at: address, advertise: fc.constantFrom("a:1", "z:1", undefined) }),
    fc.record({ at: address, peers: fc.subarray(NAMES) }),
  );

  const contents = (inventory: MeshInventory): unknown =>
    inventory.listNodes().map((node) => ({
      ...inventory.nodeCapacity(node),
      entries: inventory.nodeInventory(node)?.entries.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
    }));

  it("ends, once everybody answers, in what a fresh poller sees", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(change, { maxLength: 4 }), { maxLength: 8 }), async (polls) => {
        const mesh = new FakeMesh();
        for (const name of NAMES) {
          mesh.add(name, NAMES);
        }
        const stop = new AbortController();
        try {
          const inventory = await start(mesh, ["a:1"], { signal: stop.signal });
          for (const changes of polls) {
            for (const { at, ...more } of changes) {
              Object.assign(mesh.routes.get(at) ?? {}, more);
            }
            await inventory.tick();
          }
          for (const [name, node] of mesh.routes) {
            Object.assign(node, { mode: "up", indexStatus: undefined, advertise: name, peers: NAMES });
          }
          // An address that stood for another node for a while is not trusted with its own at once.
          await ticks(inventory, ALIAS_TICKS + 3);
          const fresh = await start(mesh, ["a:1"], { signal: stop.signal });
          expect(contents(inventory)).toEqual(contents(fresh));
          expect(addresses(inventory).toSorted()).toEqual(addresses(fresh).toSorted());
          // Nothing changes any more, so nothing is made anew.
          const { generation } = inventory;
          await inventory.tick();
          expect(inventory.generation).toBe(generation);
        } finally {
          stop.abort();
        }
      }),
      { numRuns: 100 },
    );
  });
});

describe("the loop", () => {
  it("polls by itself until the signal fires, and never twice at once", async () => {
    const { mesh, a } = pair();
    let running = 0;
    let most = 0;
    const inventory = await start(mesh, ["a:1"], {
      pollIntervalMs: 250,
      dial: (address: string) => {
        const reader = mesh.dial(address);
        return {
          info: async (options: PollCallOptions) => {
            running += address === "a:1" ? 1 : 0;
            most = Math.max(most, running);
            await new Promise((resolve) => setTimeout(resolve, 60));
            running -= address === "a:1" ? 1 : 0;
            return reader.info(options);
          },
          sandboxes: (options: PollCallOptions) => reader.sandboxes(options),
        };
      },
    });
    await expect.poll(() => a.info, { timeout: 10_000 }).toBeGreaterThan(4);
    expect(most).toBe(1);
    life.abort();
    await inventory.stopped;
    const asked = a.info;
    await new Promise((resolve) => setTimeout(resolve, 400));
    expect(a.info).toBe(asked);
    expect(inventory.listNodes()).toEqual(["a:1", "b:1"]);
  });

  it("goes on after a member hung for a whole tick", async () => {
    const { mesh, a, b } = pair();
    const inventory = await start(mesh, ["a:1"], { pollIntervalMs: 250 });
    b.mode = "hangs";
    await expect.poll(() => inventory.listNodes(), { timeout: 10_000 }).toEqual(["a:1"]);
    b.mode = "up";
    await expect.poll(() => inventory.listNodes(), { timeout: 10_000 }).toEqual(["a:1", "b:1"]);
    expect(a.info).toBeGreaterThan(4);
  });

  it("does not start when the signal has fired, or fires meanwhile", async () => {
    const { mesh, a } = pair();
    const reason = new Error("stopping");
    await expect(start(mesh, ["a:1"], { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(a.info).toBe(0);
    a.mode = "hangs";
    const starting = start(mesh, ["a:1"]);
    life.abort(reason);
    await expect(starting).rejects.toBe(reason);
  });

  it.each([
    [{ pollIntervalMs: -1 }],
    [{ pollIntervalMs: Number.NaN }],
    [{ maxStaleTicks: -1 }],
    [{ maxStaleTicks: 0.5 }],
  ])("does not start with %j", async (more) => {
    await expect(start(pair().mesh, ["a:1"], more)).rejects.toThrow(TypeError);
  });
});

describe("over real connections", () => {
  /** A node that answers nothing when its handler says nothing. */
  async function node(handler: (path: string | undefined, own: string) => [number, string] | undefined) {
    const seen: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      seen.push(`${request.url} ${request.headers.authorization}`);
      const answer = handler(request.url, address);
      if (answer !== undefined) {
        response.writeHead(answer[0], { "content-type": "application/json" }).end(answer[1]);
      }
    });
    await new Promise<void>((resolve) => {
      server.listen(0, "127.0.0.1", resolve);
    });
    const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    return {
      seen,
      address,
      connections: () =>
        new Promise<number>((resolve, reject) => {
          server.getConnections((error, count) => (error === null ? resolve(count) : reject(error)));
        }),
      async [Symbol.asyncDispose]() {
        const closed = new Promise((resolve) => server.close(resolve));
        server.closeAllConnections();
        await closed;
      },
    };
  }

  it("polls with the token and lists what the node says", async () => {
    let address = "";
    await using server = await node((path) => [
      200,
      JSON.stringify(path === "/v1/info" ? { advertise_addr: address } : { sandboxes: [row("sb_1", "ns/s1")] }),
    ]);
    ({ address } = server);
    await using nodes = createNodePool();
    const { signal } = life;
    const inventory = await MeshInventory.start({ seeds: [address], pool: nodes, token: "root", signal });
    expect(inventory.nodeInventory(address)).toMatchObject({ node: address, address, entries: [{ id: "sb_1" }] });
    expect(server.seen).toEqual(["/v1/info Bearer root", "/v1/sandboxes Bearer root"]);
  });

  it("M14: 24 nodes that take connections and never answer leave those of 12 healthy ones alone, and do not pile up", async () => {
    const open: AsyncDisposable[] = [];
    try {
      await using nodes = createNodePool();
      const hung = await Promise.all(Array.from({ length: 24 }, () => node(() => undefined)));
      open.push(...hung);
      const healthy = await Promise.all(
        Array.from({ length: 12 }, () =>
          node((path, own) => [
            200,
            JSON.stringify(path === "/v1/info" ? { advertise_addr: own } : { sandboxes: [row("sb_1", "ns/s1")] }),
          ]),
        ),
      );
      open.push(...healthy);
      const seeds = [...hung, ...healthy].map((one) => one.address);
      const inventory = await MeshInventory.start({
        seeds,
        pool: nodes,
        pollIntervalMs: 500,
        maxStaleTicks: 100,
        signal: life.signal,
      });
      expect(inventory.listNodes()).toEqual(healthy.map((one) => one.address).sort());
      await expect.poll(() => hung.every((one) => one.seen.length > 3), { timeout: 20_000 }).toBe(true);
      expect(inventory.members().every(({ fails, node: key }) => (key === undefined ? fails > 1 : fails === 0))).toBe(
        true,
      );
      for (const one of hung) {
        expect(await one.connections()).toBeLessThan(3);
      }
      for (const one of healthy) {
        expect(await one.connections()).toBe(1);
      }
      life.abort();
      await inventory.stopped;
    } finally {
      await Promise.all(open.map((one) => one[Symbol.asyncDispose]()));
    }
  });

  it("lists a node under the origin that it advertises, with its scheme", async () => {
    await using server = await node((path) => [
      200,
      JSON.stringify(path === "/v1/info" ? { advertise_addr: "https://sb.example.com" } : { sandboxes: null }),
    ]);
    await using nodes = createNodePool();
    const { signal } = life;
    const inventory = await MeshInventory.start({ seeds: [server.address], pool: nodes, signal });
    expect(inventory.listNodes()).toEqual(["https://sb.example.com"]);
    expect(inventory.nodeCapacity("https://sb.example.com")?.address).toBe("https://sb.example.com");
  });

  it.each([[401], [403]])("names a seed that refuses the token with %i, and not the token", async (status) => {
    await using server = await node(() => [status, '{"error":"operator token required"}']);
    await using nodes = createNodePool();
    const { signal } = life;
    const error: unknown = await MeshInventory.start({
      seeds: [server.address],
      pool: nodes,
      token: "root-secret",
      signal,
    }).catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      code: "unauthorized",
      message:
        `meshinventory: seed ${server.address} refused the token; GET /v1/info needs the fleet root api_token: ` +
        `GET /v1/info at ${server.address}: ${status} operator token required`,
    });
    expect(String(error)).not.toContain("secret");
  });

  it("reports seeds that cannot be reached or are no address", async () => {
    await using nodes = createNodePool();
    const { signal } = life;
    for (const seed of ["127.0.0.1:1", " b:1", ""]) {
      await expect(MeshInventory.start({ seeds: [seed], pool: nodes, signal })).rejects.toMatchObject({
        code: seed === "127.0.0.1:1" ? "no-seed-answered" : "bad-seed",
        seed,
      });
    }
  });
});
