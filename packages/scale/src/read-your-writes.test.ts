import * as fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import type { InventoryEntry, NodeInventory } from "./domain.ts";
import { Overlay } from "./overlay.ts";
import type { SandboxStore } from "./ports.ts";
import { createStore } from "./store.ts";
import { answers, ScriptedNodes, StaticInventorySource } from "./testing/index.ts";

const POOL = { template: "rt", warm: 100, target: 100 };

/** One or more nodes with capacity, and a poll that publishes what a node holds. */
function fleet(...names: readonly string[]): {
  readonly source: StaticInventorySource;
  readonly nodes: ScriptedNodes;
  readonly store: SandboxStore;
  readonly poll: (node?: string, asOfMs?: number) => void;
} {
  const nodes = new ScriptedNodes();
  const source = new StaticInventorySource(names.map((node) => ({ node, pools: [POOL] })));
  return {
    source,
    nodes,
    store: createStore(source, { clients: nodes }),
    poll(node = names[0] ?? "", asOfMs = performance.now()) {
      source.put({ ...nodes.node(node).inventory({ pools: [POOL] }), asOfMs });
    },
  };
}

const is = (id: string) => (claimId: string) => claimId === id;

describe("where a sandbox stands", () => {
  it("is what inventory and our own writes say, without asking anybody", async () => {
    const { store, source, nodes, poll } = fleet("a");
    expect(store.standing("a", "sb_none")).toBe("unlisted");
    const { id, token } = await store.claim("n", "x", { template: "rt" });
    const calls = nodes.calls.length;
    expect(store.standing("a", id)).toBe("running");
    expect(store.standing("b", id)).toBe("unknown");
    expect(nodes.calls).toHaveLength(calls);
    await store.pause("a", id);
    expect(store.standing("a", id)).toBe("paused");
    poll();
    expect(store.standing("a", id)).toBe("paused");
    nodes.node("a").guest(80, (socket) => socket.end());
    (await store.dialGuestPort("a", id, token, 80)).destroy();
    expect(store.standing("a", id)).toBe("running");
    source.partition("a");
    expect(store.standing("a", id)).toBe("unknown");
    source.partition("a", false);
    await store.release("a", id);
    expect(store.standing("a", id)).toBe("unlisted");
  });
});

describe("our own writes", () => {
  it("list a created sandbox at once, as the node's next view will", async () => {
    const { store, poll } = fleet("a");
    const { id, deadline } = await store.claim("n", "x", { template: "rt" }, { ttlSeconds: 60, metadata: { k: "v" } });
    const [before] = store.list();
    expect(before).toMatchObject({
      id,
      node: "a",
      namespace: "n",
      name: "x",
      phase: "Running",
      paused: false,
      deadline,
    });
    expect(before?.claimedAt?.getTime()).toBe((deadline?.getTime() ?? 0) - 60_000);
    poll();
    const [after] = store.list();
    expect(store.list()).toHaveLength(1);
    expect({ ...after, claimedAt: undefined }).toStrictEqual({ ...before, claimedAt: undefined });
  });

  it.each([
    ["the lease that was asked for", 60, 60],
    ["the node's default lease", undefined, 300],
    ["the longest lease", 1_000_000, 86_400],
  ])("date a created sandbox by the node's clock: %s", async (_case, ttlSeconds, granted) => {
    const { store, nodes } = fleet("a");
    // The node's clock is an hour behind ours.
    const deadline = new Date(Date.now() - 3_600_000 + granted * 1000);
    nodes.node("a").script("claim", () => ({ kind: "delivered", id: "sb_1", token: "t", deadline }));
    await store.claim("n", "x", { template: "rt" }, { ttlSeconds });
    expect(store.list()[0]?.claimedAt).toStrictEqual(new Date(deadline.getTime() - granted * 1000));
  });

  it("hide a released sandbox from list, get and read at once", async () => {
    const { store, poll, nodes } = fleet("a", "b");
    const { id, node } = await store.claim("n", "x", { template: "rt" });
    poll(node);
    expect(store.list()).toHaveLength(1);
    await store.release(node, id);
    expect(store.list()).toStrictEqual([]);
    nodes.calls.length = 0;
    await expect(store.getByClaimId("n", id, is(id))).rejects.toMatchObject({ code: "not_found" });
    expect(nodes.calls).toStrictEqual([]);
    await expect(store.get("n", "x")).rejects.toMatchObject({ code: "not_found" });
  });

  it("do not let a read that began before a release bring the sandbox back", async () => {
    const { store, poll, nodes } = fleet("a");
    const { id } = await store.claim("n", "x", { template: "rt" });
    poll();
    const rows = nodes.node("a").sandboxes;
    const answer = Promise.withResolvers<unknown>();
    nodes.node("a").script("sandbox", () => answer.promise);
    const read = store.read("a", id);
    await vi.waitFor(() => expect(nodes.calls.at(-1)?.verb).toBe("sandbox"));
    await store.release("a", id);
    answer.resolve(rows[0]);
    await expect(read).rejects.toMatchObject({ code: "not_found", status: 404 });
  });

  it("do not let a read that began before a resume call the sandbox archived", async () => {
    const { store, poll, nodes } = fleet("a");
    const { id } = await store.claim("n", "x", { template: "rt" });
    poll();
    const [row] = nodes.node("a").sandboxes;
    const answer = Promise.withResolvers<unknown>();
    nodes.node("a").script("sandbox", () => answer.promise);
    const read = store.read("a", id);
    await vi.waitFor(() => expect(nodes.calls.at(-1)?.verb).toBe("sandbox"));
    await store.resume("a", id);
    answer.resolve(row && { ...row, archived: true, entry: { ...row.entry, phase: "Hibernated" } });
    await expect(read).resolves.toMatchObject({ archived: false, paused: false, sandbox: { phase: "Running" } });
  });

  it("do not let a look-up that began before a release bring the sandbox back", async () => {
    const { store, source, nodes } = fleet("a");
    const { id } = await store.claim("n", "x", { template: "rt" });
    const rows = nodes.node("a").sandboxes;
    source.put({ node: "a", entries: [], asOfMs: performance.now() });
    const answer = Promise.withResolvers<unknown>();
    nodes.node("a").script("sandboxesByRef", () => answer.promise);
    const get = store.get("n", "x");
    await vi.waitFor(() => expect(nodes.calls.at(-1)?.verb).toBe("sandboxesByRef"));
    await store.release("a", id);
    answer.resolve(rows);
    await expect(get).rejects.toMatchObject({ code: "not_found" });
  });

  it("stay in their namespace", async () => {
    const { store } = fleet("a");
    await store.claim("n", "x", { template: "rt" });
    await store.claim("m", "y", { template: "rt" });
    expect(store.list({ namespace: "n" }).map((sandbox) => sandbox.name)).toStrictEqual(["x"]);
    expect(store.list({ namespace: "m" }).map((sandbox) => sandbox.name)).toStrictEqual(["y"]);
    expect(store.list().map((sandbox) => sandbox.name)).toStrictEqual(["y", "x"]);
  });

  it("give way to a view that was read later, and only then", async () => {
    const { store, source, poll, nodes } = fleet("a");
    const before = performance.now();
    const { id } = await store.claim("n", "x", { template: "rt" });
    source.put({ node: "a", entries: [], asOfMs: before });
    expect(store.list()).toHaveLength(1);
    source.put({ node: "a", entries: [], asOfMs: performance.now() });
    expect(store.list()).toStrictEqual([]);

    poll();
    const stale = source.nodeInventory("a");
    await store.release("a", id);
    source.put({ node: "a", entries: stale?.entries ?? [], asOfMs: before });
    expect(store.list()).toStrictEqual([]);
    // Somebody else's sandbox of the same id, as far as anybody can know: the view is younger than our write.
    source.put({ node: "a", entries: stale?.entries ?? [], asOfMs: performance.now() });
    expect(store.list()).toHaveLength(1);
    expect(nodes.calls.filter((call) => call.verb === "release")).toHaveLength(1);
  });

  it("give way to a later view of a source that has nothing new to publish", async () => {
    const { source, nodes } = fleet("a");
    const view = source.nodeInventory("a");
    let asOfMs = 0;
    const store = createStore(
      {
        generation: 1,
        listNodes: () => ["a"],
        nodeInventory: () => view && { ...view, asOfMs },
        nodeCapacity: () => view,
        nodeCapacities: () => (view === undefined ? [] : [view]),
      },
      { clients: nodes },
    );
    const { id } = await store.claim("n", "x", { template: "rt" });
    const between = performance.now();
    await store.pause("a", id);
    expect(store.list()).toMatchObject([{ paused: true }]);
    // Younger than the claim, older than the pause: what is not listed was gone before it could be paused.
    asOfMs = between;
    expect(store.list()).toStrictEqual([]);
    expect(store.list({ namespace: "n" })).toStrictEqual([]);
  });

  it("show pause, resume and renewal at once", async () => {
    const { store, source } = fleet("a");
    source.put({
      node: "a",
      entries: [{ name: "n/x", id: "sb_1", phase: "Running", deadline: new Date(0) }],
      asOfMs: 0,
    });
    const nodes = new ScriptedNodes();
    nodes.node("a").hold({ entry: { name: "n/x", id: "sb_1", phase: "Running" }, archived: false });
    const other = createStore(source, { clients: nodes });

    await other.pause("a", "sb_1");
    expect(other.list()[0]).toMatchObject({ phase: "Hibernated", paused: true, deadline: new Date(0) });
    await expect(other.get("n", "x")).resolves.toMatchObject({ paused: true });
    const deadline = await other.renew("a", "sb_1", { ttlSeconds: 60 });
    expect(other.list()[0]).toMatchObject({ paused: true, deadline });
    await other.resume("a", "sb_1");
    expect(other.list()[0]).toMatchObject({ phase: "Running", paused: false, deadline });
    expect(store.list()[0]).toMatchObject({ phase: "Running", deadline: new Date(0) });
  });

  it("do not show what a node refused", async () => {
    const { store, poll, nodes } = fleet("a");
    const { id } = await store.claim("n", "x", { template: "rt" });
    poll();
    nodes.node("a").always("hibernate", answers(409)).always("release", answers(503));
    await expect(store.pause("a", id)).rejects.toMatchObject({ status: 409 });
    await expect(store.release("a", id)).rejects.toMatchObject({ code: "node_failed" });
    expect(store.list()).toMatchObject([{ paused: false }]);
  });

  it("leave with a node that cannot be read and come back with it", async () => {
    const { store, source } = fleet("a");
    await store.claim("n", "x", { template: "rt" });
    expect(store.list()).toHaveLength(1);
    source.partition("a");
    expect(store.list()).toStrictEqual([]);
    source.partition("a", false);
    expect(store.list()).toHaveLength(1);
  });

  it("have nobody look through the views of their nodes for other ids", async () => {
    const { store, source } = fleet("a", "b");
    const looked: string[] = [];
    const views = new Map<unknown, NodeInventory>();
    const original = source.nodeInventory.bind(source);
    vi.spyOn(source, "nodeInventory").mockImplementation((node) => {
      const view = original(node);
      if (view !== undefined && !views.has(view)) {
        const entries = new Proxy(view.entries, {
          get(target, key, receiver) {
            if (key === Symbol.iterator) {
              looked.push(node);
            }
            return Reflect.get(target, key, receiver) as unknown;
          },
        });
        views.set(view, { ...view, entries });
      }
      return views.get(view);
    });
    const made = [await store.claim("n", "x", { template: "rt" }), await store.claim("n", "y", { template: "rt" })];
    const absent = async (id: string): Promise<void> => {
      await expect(store.getByClaimId("n", id, is(id))).rejects.toMatchObject({ code: "not_found" });
    };
    // The first look takes the ids of all views in.
    await absent("sb_00000000000000fe");
    looked.length = 0;
    await absent("sb_00000000000000ff");
    expect(looked).toStrictEqual([]);
    // Under another namespace's key there is no hint to it.
    for (const { id, node } of made) {
      await expect(store.getByClaimId("m", id, is(id))).rejects.toMatchObject({ code: "not_found" });
      expect(looked).toContain(node);
    }
  });

  it("let a name be used again", async () => {
    const { store, poll } = fleet("a");
    const first = await store.claim("n", "x", { template: "rt" });
    poll();
    await store.release("a", first.id);
    const second = await store.claim("n", "x", { template: "rt" });
    await expect(store.get("n", "x")).resolves.toMatchObject({ id: second.id });
    expect(store.list().map((sandbox) => sandbox.id)).toStrictEqual([second.id]);
  });

  it("are carried out and shown although their caller left", async () => {
    const { store, poll, nodes } = fleet("a");
    const { id } = await store.claim("n", "x", { template: "rt" });
    poll();
    const paused = Promise.withResolvers<void>();
    nodes.node("a").script("hibernate", () => paused.promise);
    const caller = new AbortController();
    const pause = store.pause("a", id, { signal: caller.signal });
    await vi.waitFor(() => expect(nodes.calls.at(-1)?.verb).toBe("hibernate"));
    caller.abort();
    await expect(pause).rejects.toMatchObject({ code: "aborted" });
    paused.resolve();
    await store.settled();
    expect(store.list()).toMatchObject([{ paused: true }]);
  });

  it("keep the sorted list equal to one that is sorted from scratch", async () => {
    const names = fc.constantFrom("a/x", "a/y", "b/x", "b", "c/z/1", "ä/x");
    const step = fc.oneof(
      fc.record({ kind: fc.constant("claim" as const), name: names, node: fc.constantFrom("p", "q") }),
      fc.record({ kind: fc.constantFrom("release" as const, "pause" as const, "resume" as const), at: fc.nat(20) }),
      fc.record({ kind: fc.constant("poll" as const), node: fc.constantFrom("p", "q") }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
        const nodes = new ScriptedNodes();
        const source = new StaticInventorySource([{ node: "p" }, { node: "q" }]);
        const store = createStore(source, { clients: nodes });
        const ids: { node: string; id: string }[] = [];
        for (const one of steps) {
          if (one.kind === "claim") {
            source.put({ node: one.node, ...same(source, one.node), pools: [POOL] });
            const [namespace = "", ...rest] = one.name.includes("/") ? one.name.split("/") : ["default", one.name];
            ids.push(await store.claim(namespace, rest.join("/"), { template: "rt" }));
            source.put({ node: one.node, ...same(source, one.node), pools: [] });
          } else if (one.kind === "poll") {
            source.put({ ...nodes.node(one.node).inventory(), asOfMs: performance.now() });
          } else {
            const target = ids[one.at % Math.max(ids.length, 1)];
            await (target && store[one.kind](target.node, target.id).catch(() => undefined));
          }
          const expected = ["p", "q"].flatMap((node) =>
            nodes.node(node).sandboxes.map(({ entry }) => `${entry.name} ${entry.id} ${node} ${entry.phase}`),
          );
          expect(
            store.list().map(({ namespace, name, node, id, phase }) => `${namespace}/${name} ${id} ${node} ${phase}`),
          ).toStrictEqual(expected.sort(byParts));
        }
      }),
      { numRuns: 60 },
    );
  });

  it("count against a view whose read began in the same millisecond, and against none that began later", () => {
    const now = vi.spyOn(performance, "now").mockReturnValue(1000);
    try {
      const overlay = new Overlay(new StaticInventorySource());
      const listed: InventoryEntry = { name: "n/x", id: "sb_1", phase: "Running" };
      overlay.phase("a", "sb_1", "Hibernated");
      for (const [asOfMs, phase] of [
        [999, "Hibernated"],
        [1000, "Hibernated"],
        [1000.1, "Running"],
      ] as const) {
        expect(overlay.resolve("a", "sb_1", listed, asOfMs)).toMatchObject({ phase });
      }
      overlay.released("a", "sb_1");
      expect(overlay.isGone("a", "sb_1", 1000)).toBe(true);
      expect(overlay.isGone("a", "sb_1", 1001)).toBe(false);
    } finally {
      now.mockRestore();
    }
  });

  it("to a node that is gone are forgotten a quarter of an hour after the last of them", () => {
    const now = vi.spyOn(performance, "now");
    try {
      const source = new StaticInventorySource([{ node: "seen", asOfMs: 0 }]);
      const overlay = new Overlay(source);
      const at = (minutes: number): void => void now.mockReturnValue(minutes * 60_000 + 1);
      at(0);
      for (const node of ["seen", "never seen"]) {
        overlay.released(node, "sb_1");
        overlay.claimed(node, { name: "n/x", id: "sb_2", phase: "Running" });
      }
      overlay.prune();
      source.remove("seen");
      at(10);
      overlay.phase("seen", "sb_2", "Hibernated");
      at(14.9);
      overlay.prune();
      expect(overlay.size).toBe(4);
      at(15.1);
      overlay.prune();
      expect([...overlay.nodes()]).toStrictEqual(["seen"]);
      at(24.9);
      overlay.prune();
      expect([...overlay.idsOn("seen")]).toStrictEqual(["sb_1", "sb_2"]);
      at(25.1);
      overlay.prune();
      expect(overlay.size).toBe(0);
      expect([...overlay.nodes()]).toStrictEqual([]);
    } finally {
      now.mockRestore();
    }
  });

  it("forget one claim of a name and keep the others", () => {
    const source = new StaticInventorySource();
    const overlay = new Overlay(source, 2);
    for (const id of ["sb_1", "sb_2", "sb_3"]) {
      overlay.claimed("a", { name: "n/x", id, phase: "Running" });
    }
    expect([...overlay.claimedAs("a", "n/x")]).toStrictEqual(["sb_2", "sb_3"]);
    expect([...overlay.idsOn("a")]).toStrictEqual(["sb_2", "sb_3"]);
    overlay.claimed("a", { name: "n/y", id: "sb_4", phase: "Running" });
    overlay.claimed("a", { name: "n/y", id: "sb_5", phase: "Running" });
    expect([...overlay.claimedAs("a", "n/x")]).toStrictEqual([]);
    expect(overlay.size).toBe(2);
  });

  it("are remembered up to a bound and forgotten once views show them", () => {
    const source = new StaticInventorySource();
    const overlay = new Overlay(source, 100);
    for (let at = 0; at < 1000; at += 1) {
      overlay.released(`n${at % 7}`, `sb_${at}`);
    }
    expect(overlay.size).toBe(100);
    const latest = "sb_999";
    expect(overlay.resolve("n5", latest, { name: "x", id: latest, phase: "Running" }, 0)).toBeUndefined();

    const entry: InventoryEntry = { name: "n/x", id: "odd id", phase: "Running" };
    overlay.claimed("m", entry);
    expect([...overlay.claimedAs("m", "n/x")]).toStrictEqual(["odd id"]);
    expect([...overlay.unusualOn("m")]).toStrictEqual(["odd id"]);
    for (const node of ["m", ...Array.from({ length: 7 }, (_, at) => `n${at}`)]) {
      source.put({ node, asOfMs: performance.now() + 1 });
    }
    const version = overlay.version;
    overlay.prune();
    expect(overlay.size).toBe(0);
    expect([...overlay.nodes()]).toStrictEqual([]);
    expect([...overlay.claimedAs("m", "n/x")]).toStrictEqual([]);
    expect(overlay.version).toBeGreaterThan(version);
  });
});

/** A view's parts that a put without news must keep. */
function same(source: StaticInventorySource, node: string): { entries: readonly InventoryEntry[]; asOfMs: number } {
  const view = source.nodeInventory(node);
  return { entries: view?.entries ?? [], asOfMs: view?.asOfMs ?? 0 };
}

function byParts(a: string, b: string): number {
  const key = (line: string): string => {
    const [name = "", ...rest] = line.split(" ");
    return [name.replace("/", "\u0000"), ...rest].join("\u0000");
  };
  return key(a) < key(b) ? -1 : 1;
}
