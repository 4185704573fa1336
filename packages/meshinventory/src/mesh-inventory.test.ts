import { describe, expect, it } from "vitest";
import { FakeMesh, pool, row, type FakeNode } from "./testing/fake-mesh.ts";
import { start, startFailure, ticks, addresses, failsOf, pair, MAX_STALE } from "./testing/mesh-fixture.ts";

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

  it("tells listeners of ticks that changed something, until they leave", async () => {
    const { mesh, a } = pair();
    const inventory = await start(mesh, ["a:1"]);
    let told = 0;
    const leave = inventory.onChange(() => void (told += 1));
    await inventory.tick();
    expect(told).toBe(0);
    a.rows = [row("sb_1", "ns/s1")];
    await inventory.tick();
    expect(told).toBe(1);
    leave();
    a.rows = [];
    await inventory.tick();
    expect(told).toBe(1);
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
