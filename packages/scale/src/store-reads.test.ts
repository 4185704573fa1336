import { afterEach, describe, expect, it, vi } from "vitest";
import type { InventoryEntry } from "./domain.ts";
import type { Logger, NodeSandbox, SandboxStore } from "./ports.ts";
import { sandboxObject } from "./sandbox-object.ts";
import { createStore } from "./store.ts";
import type { StoreOptions } from "./store.ts";
import { answers, fails, ScriptedNodes, StaticInventorySource, staysSilent } from "./testing/index.ts";

afterEach(() => {
  vi.useRealTimers();
});

function entry(id: string, name: string, more: Partial<InventoryEntry> = {}): InventoryEntry {
  return { name, id, phase: "Running", template: "rt", claimRef: name, ...more };
}

function row(id: string, name: string, more: Partial<InventoryEntry> = {}): NodeSandbox {
  return { entry: entry(id, name, more), archived: false, token: `token of ${id}` };
}

interface Fleet {
  readonly source: StaticInventorySource;
  readonly nodes: ScriptedNodes;
  readonly store: SandboxStore;
  /** `verb node` of each call so far. */
  readonly calls: () => string[];
}

function fleet(views: Readonly<Record<string, readonly InventoryEntry[]>>, options: StoreOptions = {}): Fleet {
  const nodes = new ScriptedNodes();
  const source = new StaticInventorySource(Object.entries(views).map(([node, entries]) => ({ node, entries })));
  return {
    source,
    nodes,
    store: createStore(source, { clients: nodes, ...options }),
    calls: () => nodes.calls.map((call) => `${call.verb} ${call.address}`),
  };
}

const is = (id: string) => (claimId: string) => claimId === id;
const ID = "sb_00000000000000aa";

const notFound = { code: "not_found" };

describe("list", () => {
  it("R1: flattens all nodes in code-unit order and names each sandbox's node", () => {
    const { store } = fleet({
      b: [entry("sb_3", "team/b"), entry("sb_1", "Team/z"), entry("sb_5", "lonely")],
      a: [entry("sb_2", "team/B"), entry("sb_4", "team/ä", { phase: "Hibernated" })],
    });
    expect(store.list().map(({ namespace, name, node }) => `${namespace}/${name}@${node}`)).toStrictEqual([
      "Team/z@b",
      "default/lonely@b",
      "team/B@a",
      "team/b@b",
      "team/ä@a",
    ]);
    expect(store.list().map((sandbox) => sandbox.paused)).toStrictEqual([false, false, false, false, true]);
    expect(store.list().map(sandboxObject)).toMatchObject(
      ["b", "b", "a", "b", "a"].map((node) => ({
        metadata: { labels: { "sandbox.cocoonstack.io/node": node } },
        status: { nodeName: node },
      })),
    );
  });

  it("R2: keeps to one namespace", () => {
    const { store } = fleet({ a: [entry("sb_1", "a/x"), entry("sb_2", "ab/x"), entry("sb_3", "b/x/y")] });
    expect(store.list({ namespace: "a" }).map((sandbox) => sandbox.id)).toStrictEqual(["sb_1"]);
    expect(store.list({ namespace: "b" }).map((sandbox) => sandbox.name)).toStrictEqual(["x/y"]);
    expect(store.list({ namespace: "none" })).toStrictEqual([]);
    expect(store.list({ namespace: "" })).toHaveLength(3);
  });

  it("R4: goes on without a node that cannot be read", async () => {
    const lines: string[] = [];
    const logger: Logger = { debug: (_fields, message) => lines.push(message), info() {}, warn() {}, error() {} };
    const { store, source } = fleet({ a: [entry("sb_1", "n/a")], b: [entry("sb_2", "n/b")] }, { logger });
    source.partition("a");
    expect(store.list().map((sandbox) => sandbox.id)).toStrictEqual(["sb_2"]);
    expect(lines).toStrictEqual(["node inventory unavailable; omitting from list (eventual consistency) node=a"]);
    await expect(store.page()).resolves.toMatchObject({ sandboxes: [{ id: "sb_2" }] });
    expect(lines).toHaveLength(2);
    expect(lines[1]).toBe(lines[0]);
    source.partition("a", false);
    expect(store.list()).toHaveLength(2);
  });

  it("lists the same name of two nodes twice, in a fixed order", () => {
    const { store } = fleet({ b: [entry("sb_1", "n/x")], a: [entry("sb_2", "n/x"), entry("sb_0", "n/x")] });
    expect(store.list().map((sandbox) => `${sandbox.node} ${sandbox.id}`)).toStrictEqual([
      "a sb_0",
      "b sb_1",
      "a sb_2",
    ]);
  });

  it("answers with the same array until something changes", () => {
    const { store, source } = fleet({ a: [entry("sb_1", "n/x")] });
    const first = store.list({ namespace: "n" });
    expect(store.list({ namespace: "n" })).toBe(first);
    source.put({ node: "b", entries: [entry("sb_2", "n/a"), entry("sb_3", "m/a")] });
    expect(store.list({ namespace: "n" }).map((sandbox) => sandbox.name)).toStrictEqual(["a", "x"]);
    expect(store.list({ namespace: "m" }).map((sandbox) => sandbox.name)).toStrictEqual(["a"]);
    expect(first.map((sandbox) => sandbox.name)).toStrictEqual(["x"]);
  });

  it("keeps the views of entries that a new snapshot shares", () => {
    const shared = entry("sb_1", "n/x");
    let generation = 1;
    let entries = [shared];
    const store = createStore({
      get generation() {
        return generation;
      },
      listNodes: () => ["a"],
      nodeInventory: () => ({ node: "a", address: "a", pools: [], templates: [], entries, asOfMs: generation }),
      nodeCapacity: () => undefined,
      nodeCapacities: () => [],
    });
    const [before] = store.list();
    generation = 2;
    entries = [shared, entry("sb_2", "n/y")];
    expect(store.list()).toHaveLength(2);
    expect(store.list()[0]).toBe(before);
  });

  it("ends for a caller that has left", () => {
    const { store } = fleet({});
    expect(() => store.list({ signal: AbortSignal.abort() })).toThrow(expect.objectContaining({ code: "aborted" }));
  });

  it.each([
    ["R12: a name with slashes", "ns/a/b", "ns", "a/b"],
    ["R12: a name without one", "sb_1", "default", "sb_1"],
    ["R12: an empty namespace", "/x", "", "x"],
  ])("%s splits at the first slash", (_case, name, namespace, rest) => {
    const { store } = fleet({ a: [entry("sb_1", name)] });
    expect(store.list()).toMatchObject([{ namespace, name: rest }]);
  });

  it("R14: leaves out what the node did not report", () => {
    const { store } = fleet({ a: [{ name: "n/x", id: "", phase: "Running" }] });
    const [sandbox] = store.list();
    expect(sandbox).toMatchObject({ id: "", deadline: undefined, claimedAt: undefined, metadata: undefined });
  });
});

describe("get", () => {
  it("R5: finds the owner's entry, and nothing else", async () => {
    const { store } = fleet({ a: [entry("sb_1", "n/x")], b: [entry("sb_2", "n/y"), entry("sb_3", "plain")] });
    await expect(store.get("n", "y")).resolves.toMatchObject({ node: "b", id: "sb_2" });
    await expect(store.get("default", "plain")).resolves.toMatchObject({ id: "sb_3" });
    await expect(store.get("n", "z")).rejects.toMatchObject(notFound);
    await expect(store.get("m", "x")).rejects.toMatchObject(notFound);
  });

  it("R6: finds a sandbox that no inventory lists yet, in its namespace only", async () => {
    const { store, nodes, calls } = fleet({ a: [], b: [] });
    const claimedAt = new Date("2030-01-01T00:00:00Z");
    nodes.node("b").hold(row(ID, "n/x", { claimedAt }));
    await expect(store.getByClaimId("n", ID, is(ID))).resolves.toMatchObject({
      id: ID,
      node: "b",
      template: "rt",
      claimedAt,
    });
    await expect(store.getByClaimId("", ID, is(ID))).resolves.toMatchObject({ id: ID });
    await expect(store.getByClaimId("m", ID, is(ID))).rejects.toMatchObject(notFound);
    await expect(store.get("n", "x")).resolves.toMatchObject({ id: ID });
    expect(calls()).toContain("sandboxesByRef b");
  });

  it("R7: takes a silent node for a miss after its time, by id and by name", async () => {
    vi.useFakeTimers();
    const { store, nodes } = fleet({ a: [], b: [] });
    for (const node of ["a", "b"]) {
      // Ignores its signal as well: a look-up must not depend on the client's manners.
      nodes.node(node).always("sandbox", () => new Promise(() => undefined));
      nodes.node(node).always("sandboxesByRef", staysSilent());
    }
    const outcomes: unknown[] = [];
    const both = Promise.allSettled([store.getByClaimId("n", ID, is(ID)), store.get("n", "x")]).then((settled) =>
      outcomes.push(...settled),
    );
    await vi.advanceTimersByTimeAsync(499);
    expect(outcomes).toStrictEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    await both;
    expect(outcomes).toMatchObject([
      { status: "rejected", reason: { ...notFound, unanswered: 2 } },
      { status: "rejected", reason: { ...notFound, unanswered: 2 } },
    ]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("tells a miss that every node confirmed from one that a node left open", async () => {
    const { store, nodes } = fleet({ a: [], b: [] });
    await expect(store.getByClaimId("", ID, is(ID))).rejects.toMatchObject({ ...notFound, unanswered: 0 });
    nodes.node("b").always("sandbox", fails({ kind: "unsent" }));
    await expect(store.getByClaimId("", ID, is(ID))).rejects.toMatchObject({ ...notFound, unanswered: 1 });
  });

  it("leaves a miss open while a node is listed that cannot be read, and not for one that left", async () => {
    const { store, source } = fleet({ a: [], b: [] });
    source.put({ node: "b", pools: [{ template: "rt", warm: 1, target: 1 }] });
    const { id } = await store.claim("n", "x", { template: "rt" });
    source.put({ node: "c", address: "" });
    await expect(store.getByClaimId("", ID, is(ID))).rejects.toMatchObject({ ...notFound, unanswered: 0 });
    source.partition("b");
    await expect(store.getByClaimId("", ID, is(ID))).rejects.toMatchObject({ ...notFound, unanswered: 1 });
    // The hint leads to it: it is counted once all the same.
    await expect(store.getByClaimId("", id, is(id))).rejects.toMatchObject({ ...notFound, unanswered: 1 });
    await expect(store.get("n", "x")).rejects.toMatchObject({ ...notFound, unanswered: 1 });
    source.remove("b");
    await expect(store.getByClaimId("", id, is(id))).rejects.toMatchObject({ ...notFound, unanswered: 0 });
  });

  it("leaves a miss open when a node left while others were asked", async () => {
    const names = Array.from({ length: 17 }, (_, at) => `n${String(at).padStart(2, "0")}`);
    const { store, source, nodes } = fleet(Object.fromEntries(names.map((name) => [name, []])));
    nodes.node("n00").always("sandbox", () => {
      source.remove("n16");
    });
    await expect(store.getByClaimId("", ID, is(ID))).rejects.toMatchObject({ ...notFound, unanswered: 1 });
    expect(nodes.calls).toHaveLength(16);
  });

  it("R8: asks no inventory but the claiming node's right after a claim", async () => {
    const { store, source, nodes } = fleet({ a: [], b: [] });
    source.put({ node: "a", pools: [{ template: "rt", warm: 1, target: 1 }] });
    const { id } = await store.claim("n", "x", { template: "rt" });
    const inventories = vi.spyOn(source, "nodeInventory");
    const lists = vi.spyOn(source, "listNodes");

    await expect(store.get("n", "x")).resolves.toMatchObject({ id, node: "a" });
    await expect(store.getByClaimId("n", id, is(id))).resolves.toMatchObject({ id, node: "a" });
    await expect(store.getByClaimId("", id, is(id))).resolves.toMatchObject({ id, node: "a" });

    expect(nodes.calls.map((call) => call.verb)).toStrictEqual(["claim"]);
    expect(new Set(inventories.mock.calls.map(([node]) => node))).toStrictEqual(new Set(["a"]));
    expect(lists).not.toHaveBeenCalled();
  });

  it("R8: asks only the claiming node when its newer view does not list the sandbox", async () => {
    const { store, source, nodes, calls } = fleet({ a: [], b: [] });
    source.put({ node: "a", pools: [{ template: "rt", warm: 1, target: 1 }] });
    const { id } = await store.claim("n", "x", { template: "rt" });
    source.put({ node: "a", entries: [], asOfMs: performance.now() });
    nodes.calls.length = 0;
    await expect(store.get("n", "x")).resolves.toMatchObject({ id });
    await expect(store.getByClaimId("", id, is(id))).resolves.toMatchObject({ id });
    expect(calls()).toStrictEqual(["sandboxesByRef a", "sandbox a"]);
  });

  it("R9: remembers where a sandbox that was claimed elsewhere lives", async () => {
    const { store, nodes, calls } = fleet({ a: [], b: [], c: [] });
    nodes.node("c").hold(row(ID, "n/x"));
    await store.getByClaimId("n", ID, is(ID));
    expect(calls().sort()).toStrictEqual(["sandbox a", "sandbox b", "sandbox c"]);
    nodes.calls.length = 0;
    await store.getByClaimId("n", ID, is(ID));
    expect(calls()).toStrictEqual(["sandbox c"]);
    nodes.calls.length = 0;
    await expect(store.getByClaimId("m", ID, is(ID))).rejects.toMatchObject(notFound);
    expect(calls().sort()).toStrictEqual(["sandbox a", "sandbox b", "sandbox c"]);
  });

  it("R9: remembers where a sweep of the inventories found one", async () => {
    const { store, source } = fleet({ a: [], b: [entry(ID, "n/x")] });
    const lists = vi.spyOn(source, "listNodes");
    await store.get("n", "x");
    await store.getByClaimId("", ID, is(ID));
    expect(lists).toHaveBeenCalledTimes(2);
    await store.get("n", "x");
    await store.getByClaimId("", ID, is(ID));
    expect(lists).toHaveBeenCalledTimes(2);
  });

  it("R10: takes the right row from a node that ignores the claim reference", async () => {
    const { store, nodes } = fleet({ a: [] });
    const rows = [row("sb_1", "m/x"), row("sb_2", "n/x2"), row("sb_3", "n/x"), row("sb_4", "x")];
    nodes.node("a").always("sandboxesByRef", () => rows);
    await expect(store.get("n", "x")).resolves.toMatchObject({ id: "sb_3" });
    await expect(store.get("default", "x")).resolves.toMatchObject({ id: "sb_4" });
    await expect(store.get("n", "y")).rejects.toMatchObject(notFound);
  });

  it("R11: sweeps the inventories once, and asks nobody, without node clients", async () => {
    const source = new StaticInventorySource([{ node: "a" }, { node: "b", entries: [entry(ID, "n/x")] }]);
    const store = createStore(source);
    const lists = vi.spyOn(source, "listNodes");
    await expect(store.get("n", "x")).resolves.toMatchObject({ id: ID });
    await expect(store.getByClaimId("n", "sb_0", is("sb_0"))).rejects.toMatchObject(notFound);
    expect(lists).toHaveBeenCalledTimes(2);
  });

  it("R13: finds an unpublished claim by name in its namespace", async () => {
    const { store, source } = fleet({ a: [] });
    source.put({ node: "a", pools: [{ template: "rt", warm: 1, target: 1 }] });
    await store.claim("n", "x", { template: "rt" });
    await expect(store.get("n", "x")).resolves.toMatchObject({ namespace: "n", name: "x" });
    await expect(store.get("", "x")).rejects.toMatchObject(notFound);
    await expect(store.get("n", "")).rejects.toMatchObject(notFound);
  });

  it("R15: holds one object per node and applies each once", () => {
    const { source } = fleet({ a: [entry("sb_1", "n/x"), entry("sb_2", "n/y")], b: [] });
    expect(source.objectCount).toBe(2);
    expect(source.applyCount).toBe(2);
  });

  it("C22: keeps the hint to a node that did not list the claim", async () => {
    const { store, source, nodes, calls } = fleet({ a: [], b: [] });
    source.put({ node: "a", pools: [{ template: "rt", warm: 1, target: 1 }] });
    const { id } = await store.claim("n", "x", { template: "rt" });
    const [held] = nodes.node("a").sandboxes;
    nodes.node("a").lose(id);
    source.put({ node: "a", entries: [], asOfMs: performance.now() });
    nodes.calls.length = 0;
    await expect(store.get("n", "x")).rejects.toMatchObject(notFound);
    await expect(store.getByClaimId("n", id, is(id))).rejects.toMatchObject(notFound);
    expect(calls().sort()).toStrictEqual(["sandbox a", "sandbox b", "sandboxesByRef a", "sandboxesByRef b"]);

    source.put({ node: "a", entries: held === undefined ? [] : [held.entry] });
    source.partition("b");
    const lists = vi.spyOn(source, "listNodes");
    await expect(store.get("n", "x")).resolves.toMatchObject({ id });
    await expect(store.getByClaimId("n", id, is(id))).resolves.toMatchObject({ id });
    expect(lists).not.toHaveBeenCalled();
  });

  it.each(["Box.1", "SB_00000000000000A1"])("finds our own claim with the id %s by its public spelling", async (id) => {
    const { store, source, nodes } = fleet({ a: [], b: [] });
    source.put({ node: "b", pools: [{ template: "rt", warm: 1, target: 1 }] });
    nodes.node("b").script("claim", () => ({ kind: "delivered", id, token: "t" }));
    await store.claim("n", "x", { template: "rt" });
    nodes.calls.length = 0;
    const asked = id.toLowerCase();
    const match = (claimId: string): boolean => claimId.toLowerCase() === asked;
    await expect(store.getByClaimId("n", asked, match)).resolves.toMatchObject({ id, node: "b" });
    await expect(store.getByClaimId("m", asked, match)).rejects.toMatchObject(notFound);
    source.put({ node: "b", entries: [entry(id, "n/x")] });
    await expect(store.getByClaimId("", asked, match)).resolves.toMatchObject({ id, node: "b" });
    expect(nodes.calls.map((call) => call.verb)).toStrictEqual(["sandbox", "sandbox"]);
  });

  it("finds ids that only the predicate can compare", async () => {
    const { store, nodes } = fleet({ a: [entry("Box.1", "n/x")], b: [entry("sb_1", "n/y")] });
    const published = (claimId: string): boolean => claimId.toLowerCase().replaceAll(".", "-") === "box-1";
    await expect(store.getByClaimId("n", "box-1", published)).resolves.toMatchObject({ id: "Box.1" });
    expect(nodes.calls).toStrictEqual([]);
  });

  it("never takes an entry without an id for the one that is asked for", async () => {
    const { store } = fleet({ a: [entry("", "n/x")] });
    await expect(store.getByClaimId("n", "", () => true)).rejects.toMatchObject(notFound);
  });

  it("passes over a node that lies about ids", async () => {
    const { store, nodes } = fleet({ a: [], b: [] });
    nodes.node("a").always("sandbox", () => row("sb_other", "n/x"));
    nodes.node("b").hold(row(ID, "n/x"));
    await expect(store.getByClaimId("n", ID, is(ID))).resolves.toMatchObject({ node: "b" });
  });

  it.each([
    ["fails", answers(500)],
    ["refuses the token", answers(401)],
    ["cannot be reached", fails({ kind: "unsent" })],
  ])("takes a node that %s for a miss", async (_case, step) => {
    const { store, nodes } = fleet({ a: [], b: [] });
    nodes.node("a").always("sandbox", step).always("sandboxesByRef", step);
    nodes.node("b").hold(row(ID, "n/x"));
    await expect(store.getByClaimId("n", ID, is(ID))).resolves.toMatchObject({ node: "b" });
    await expect(store.get("n", "x")).resolves.toMatchObject({ node: "b" });
    await expect(store.get("n", "y")).rejects.toMatchObject(notFound);
  });

  it("asks at most sixteen nodes at a time and stops at the first hit", async () => {
    const names = Array.from({ length: 40 }, (_, at) => `n${String(at).padStart(2, "0")}`);
    const { store, nodes } = fleet(Object.fromEntries(names.map((name) => [name, []])));
    const lines: string[] = [];
    for (const name of names) {
      nodes.node(name).always("sandbox", staysSilent());
    }
    nodes.node("n15").always("sandbox", async () => {
      lines.push(`asked with ${nodes.calls.length}`);
      await Promise.resolve();
      return row(ID, "n/x");
    });
    await expect(store.getByClaimId("n", ID, is(ID))).resolves.toMatchObject({ node: "n15" });
    expect(lines).toStrictEqual(["asked with 16"]);
    expect(nodes.calls).toHaveLength(16);
    expect(nodes.calls.filter((call) => call.signal?.aborted !== true).map((call) => call.address)).toStrictEqual([
      "n15",
    ]);
  });

  it("logs a node that did not answer, and none that a hit made superfluous", async () => {
    const lines: unknown[] = [];
    const logger: Logger = {
      debug: (fields, message) => lines.push({ ...fields, message }),
      info() {},
      warn() {},
      error() {},
    };
    const { store, nodes } = fleet({ a: [], b: [], c: [] }, { logger });
    nodes.node("a").always("sandbox", answers(500, "sandbox lookup failed"));
    nodes.node("b").always("sandbox", staysSilent());
    nodes.node("c").hold(row(ID, "n/x"));
    await store.getByClaimId("n", ID, is(ID));
    await new Promise((resolve) => setImmediate(resolve));
    expect(lines).toStrictEqual([
      {
        func: "scale.liveOnNode",
        node: "a",
        op: "claim-id get",
        err: "status 500: sandbox lookup failed",
        message: "node did not answer a live claim-id get node=a err=status 500: sandbox lookup failed",
      },
    ]);
  });

  it("ends with its caller, and takes the node's reads along", async () => {
    const { store, nodes } = fleet({ a: [], b: [] });
    nodes.node("a").always("sandbox", staysSilent());
    nodes.node("b").always("sandbox", () => new Promise(() => undefined));
    const caller = new AbortController();
    const get = store.getByClaimId("n", ID, is(ID), { signal: caller.signal });
    await vi.waitFor(() => expect(nodes.calls).toHaveLength(2));
    caller.abort();
    await expect(get).rejects.toMatchObject({ code: "aborted" });
    expect(nodes.calls.every((call) => call.signal?.aborted === true)).toBe(true);
    await expect(store.get("n", "x", { signal: caller.signal })).rejects.toMatchObject({ code: "aborted" });
  });

  it("answers in a fleet whose maps take more than one turn to build", async () => {
    const names = Array.from({ length: 50 }, (_, at) => `n${at}`);
    const { store, nodes } = fleet(
      Object.fromEntries(names.map((name, at) => [name, [entry(`sb_${String(at).padStart(16, "0")}`, `n/${at}`)]])),
    );
    await expect(store.getByClaimId("n", "sb_0000000000000049", is("sb_0000000000000049"))).resolves.toMatchObject({
      node: "n49",
    });
    await expect(store.get("n", "31")).resolves.toMatchObject({ node: "n31" });
    expect(nodes.calls).toStrictEqual([]);
  });

  it("ends with a caller that leaves between two turns, although it would find the sandbox", async () => {
    const names = Array.from({ length: 50 }, (_, at) => `n${at}`);
    const { store } = fleet(Object.fromEntries(names.map((name) => [name, [entry(`sb_${name}`, `n/${name}`)]])));
    const caller = new AbortController();
    const get = store.get("n", "n49", { signal: caller.signal });
    caller.abort();
    await expect(get).rejects.toMatchObject({ code: "aborted" });
  });
});
