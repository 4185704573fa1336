import { getEventListeners } from "node:events";
import { describe, expect, it, vi } from "vitest";
import { createNodePoller, createNodePool, type PollCallOptions } from "@org/sandboxd-client";
import { MeshInventory, type NodeReader } from "./index.ts";
import { FakeMesh, pool, row } from "./testing/fake-mesh.ts";
import { start, ticks, addresses, failsOf, pair, recorder, MAX_STALE, currentLife } from "./testing/mesh-fixture.ts";

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
    currentLife().abort();
    await running;
    await inventory.stopped;
    expect(inventory.generation).toBe(generation);
    expect(inventory.nodeInventory("a:1")).toBe(before);
    expect(inventory.members()).toEqual(members);
    expect(lines).toHaveLength(logged);
    expect(getEventListeners(currentLife().signal, "abort")).toEqual([]);
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
    currentLife().abort();
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
      currentLife().abort();
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
      const error: unknown = await MeshInventory.start({ ...options, pool: nodes, signal: currentLife().signal }).catch(
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
    currentLife().abort();
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
    currentLife().abort(reason);
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
