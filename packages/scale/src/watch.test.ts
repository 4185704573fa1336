import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { InventoryEntry } from "./domain.ts";
import type { Logger, SandboxEvent, SandboxStore, WatchOptions } from "./ports.ts";
import { resourceVersionOf } from "./resource-version.ts";
import { createStore } from "./store.ts";
import type { StoreOptions } from "./store.ts";
import { fails, ScriptedNodes, StaticInventorySource, staysSilent } from "./testing/index.ts";

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

const POOL = { template: "rt", warm: 9, target: 9 };

function entry(id: string, name: string, more: Partial<InventoryEntry> = {}): InventoryEntry {
  return { name, id, phase: "Running", template: "rt", claimRef: name, ...more };
}

interface Fleet {
  readonly source: StaticInventorySource;
  readonly nodes: ScriptedNodes;
  readonly store: SandboxStore;
  readonly put: (node: string, ...entries: readonly InventoryEntry[]) => void;
}

function fleet(views: Readonly<Record<string, readonly InventoryEntry[]>>, options: StoreOptions = {}): Fleet {
  const nodes = new ScriptedNodes();
  const source = new StaticInventorySource();
  const put = (node: string, ...entries: readonly InventoryEntry[]): void =>
    source.put({ node, pools: [POOL], entries });
  for (const [node, entries] of Object.entries(views)) {
    put(node, ...entries);
  }
  return { source, nodes, put, store: createStore(source, { clients: nodes, ...options }) };
}

function inWords(event: SandboxEvent): string {
  return event.type === "BOOKMARK"
    ? event.type
    : `${event.type} ${event.sandbox.namespace}/${event.sandbox.name} ${event.sandbox.id}`;
}

interface Reader {
  readonly events: readonly SandboxEvent[];
  /** What came since the last call, in words. */
  readonly news: () => string[];
  readonly leave: () => Promise<unknown>;
  readonly done: Promise<void>;
}

/** Reads a watch for as long as it lasts. */
function read(store: SandboxStore, options: WatchOptions = {}): Reader {
  const iterator = store.watch(options)[Symbol.asyncIterator]();
  const events: SandboxEvent[] = [];
  let seen = 0;
  const done = (async () => {
    for (let step = await iterator.next(); step.done !== true; step = await iterator.next()) {
      events.push(step.value);
    }
  })();
  return {
    events,
    done,
    leave: async () => iterator.return?.(),
    news() {
      const fresh = events.slice(seen).map(inWords);
      seen = events.length;
      return fresh;
    },
  };
}

const tick = (milliseconds = 1000): Promise<unknown> => vi.advanceTimersByTimeAsync(milliseconds);

interface Line {
  readonly level: string;
  readonly message: string;
  readonly fields: object;
}

function recorder(): { readonly lines: Line[]; readonly logger: Logger } {
  const lines: Line[] = [];
  const at = (level: string) => (fields: object, message: string) => void lines.push({ level, message, fields });
  return { lines, logger: { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") } };
}

describe("a watch", () => {
  it("W1: sees a sandbox come, change and go", async () => {
    const { store, put } = fleet({ a: [entry("sb_1", "n/x")] });
    const watch = read(store);
    await tick(0);
    expect(watch.news()).toStrictEqual(["ADDED n/x sb_1"]);

    put("a", entry("sb_1", "n/x"), entry("sb_2", "n/y"));
    await tick();
    expect(watch.news()).toStrictEqual(["ADDED n/y sb_2"]);

    put("a", entry("sb_1", "n/x", { phase: "Hibernated" }), entry("sb_2", "n/y"));
    await tick();
    expect(watch.news()).toStrictEqual(["MODIFIED n/x sb_1"]);

    put("a", entry("sb_2", "n/y"));
    await tick();
    expect(watch.news()).toStrictEqual(["DELETED n/x sb_1"]);

    const sandboxes = watch.events.flatMap((event) => (event.type === "BOOKMARK" ? [] : [event]));
    expect(sandboxes.map(({ sandbox }) => sandbox.phase)).toStrictEqual([
      "Running",
      "Running",
      "Hibernated",
      "Hibernated",
    ]);
    expect(sandboxes.map(({ version }) => version)).toStrictEqual(
      sandboxes.map(({ sandbox }) => resourceVersionOf(sandbox)),
    );
    await watch.leave();
  });

  it("W2: sends a bookmark when it is asked for, after what is there already", async () => {
    const { store } = fleet({ a: [entry("sb_1", "n/y"), entry("sb_2", "n/x")] });
    const [plain, marked, empty] = [
      read(store),
      read(store, { bookmark: true }),
      read(store, { bookmark: true, namespace: "m" }),
    ];
    await tick(5000);
    expect(plain.news()).toStrictEqual(["ADDED n/x sb_2", "ADDED n/y sb_1"]);
    expect(marked.news()).toStrictEqual(["ADDED n/x sb_2", "ADDED n/y sb_1", "BOOKMARK"]);
    expect(empty.news()).toStrictEqual(["BOOKMARK"]);
    await Promise.all([plain.leave(), marked.leave(), empty.leave()]);
  });

  it("W3: tells of a sandbox that lives no longer than from one tick of 10 ms to the next, after a long silence", async () => {
    const { store, put } = fleet({ a: [] }, { watchPollMs: 10 });
    const watch = read(store);
    await tick(60_000);
    put("a", entry("sb_1", "n/x"));
    await tick(10);
    put("a");
    await tick(10);
    expect(watch.news()).toStrictEqual(["ADDED n/x sb_1", "DELETED n/x sb_1"]);
    await watch.leave();
  });

  it("R3: refuses a bad selector before it begins", () => {
    const { store } = fleet({});
    for (const options of [{ labelSelector: "a in" }, { fieldSelector: "spec.x=1" }, { fieldSelector: "x" }]) {
      expect(() => store.watch(options)).toThrow(expect.objectContaining({ code: "bad_request" }));
    }
  });

  it("R14: tells of a lease or a claim time that a node comes to report", async () => {
    const { store, put } = fleet({ a: [entry("sb_1", "n/x")] });
    const watch = read(store);
    await tick(0);
    put("a", entry("sb_1", "n/x", { deadline: new Date(60_000) }));
    await tick();
    put("a", entry("sb_1", "n/x", { deadline: new Date(60_000), claimedAt: new Date(1000) }));
    await tick();
    put("a", entry("sb_1", "n/x", { deadline: new Date(60_000), claimedAt: new Date(1000), metadata: { k: "v" } }));
    await tick();
    expect(watch.news()).toStrictEqual(["ADDED n/x sb_1", "MODIFIED n/x sb_1", "MODIFIED n/x sb_1"]);
    await watch.leave();
  });

  it("says nothing of equal entries that are published again", async () => {
    const { store, put } = fleet({ a: [entry("sb_1", "n/x")], b: [entry("sb_2", "n/y")] });
    const watch = read(store);
    await tick(0);
    watch.news();
    put("a", entry("sb_1", "n/x"));
    put("b", entry("sb_2", "n/y"));
    await tick(3000);
    expect(watch.news()).toStrictEqual([]);
    await watch.leave();
  });

  it("says nothing of an entry that moves to another node", async () => {
    const { store, put } = fleet({ a: [entry("sb_1", "n/x")], b: [] });
    const everything = read(store);
    const ofNode = read(store, { fieldSelector: "status.nodeName=b" });
    await tick(0);
    everything.news();
    put("a");
    put("b", entry("sb_1", "n/x"));
    await tick();
    expect(everything.news()).toStrictEqual([]);
    expect(ofNode.news()).toStrictEqual(["ADDED n/x sb_1"]);
    put("b");
    await tick();
    expect(everything.events.at(-1)).toMatchObject({ type: "DELETED", sandbox: { node: "b" } });
    await Promise.all([everything.leave(), ofNode.leave()]);
  });

  it("tells of what comes into its selection and what leaves it", async () => {
    const { store, put } = fleet({ a: [entry("sb_1", "n/x", { phase: "Hibernated" })] });
    const watch = read(store, { labelSelector: "sandbox.cocoonstack.io/phase=Running", namespace: "n" });
    await tick(0);
    expect(watch.news()).toStrictEqual([]);
    put("a", entry("sb_1", "n/x"), entry("sb_2", "m/x"));
    await tick();
    expect(watch.news()).toStrictEqual(["ADDED n/x sb_1"]);
    put("a", entry("sb_1", "n/x", { phase: "Hibernated" }));
    await tick();
    // The last that was shown, not what took it away.
    expect(watch.events.at(-1)).toMatchObject({ type: "DELETED", sandbox: { phase: "Running" } });
    await watch.leave();
  });

  it("loses the sandboxes of a node that cannot be read, and gets them back", async () => {
    const { store, source } = fleet({ a: [entry("sb_1", "n/x")], b: [entry("sb_2", "n/y")] });
    const watch = read(store);
    await tick(0);
    watch.news();
    source.partition("a");
    await tick();
    expect(watch.news()).toStrictEqual(["DELETED n/x sb_1"]);
    source.partition("a", false);
    source.remove("b");
    await tick();
    expect(watch.news().sort()).toStrictEqual(["ADDED n/x sb_1", "DELETED n/y sb_2"]);
    await watch.leave();
  });

  it("tells of our own claims, pauses, renewals and releases at the next tick", async () => {
    const { store, source, nodes } = fleet({ a: [] });
    const watch = read(store, { namespace: "n" });
    await tick();
    const { id } = await store.claim("n", "x", { template: "rt" });
    await store.claim("m", "x", { template: "rt" });
    await tick();
    expect(watch.news()).toStrictEqual([`ADDED n/x ${id}`]);
    await store.pause("a", id);
    await tick();
    expect(watch.news()).toStrictEqual([`MODIFIED n/x ${id}`]);
    expect(watch.events.at(-1)).toMatchObject({ sandbox: { phase: "Hibernated" } });
    // The node's own view says the same.
    source.put(nodes.node("a").inventory({ pools: [POOL] }));
    await tick();
    expect(watch.news()).toStrictEqual([]);
    await store.renew("a", id, { ttlSeconds: 5000 });
    await tick();
    expect(watch.news()).toStrictEqual([`MODIFIED n/x ${id}`]);
    await store.release("a", id);
    await tick();
    expect(watch.news()).toStrictEqual([`DELETED n/x ${id}`]);
    await watch.leave();
  });
});

describe("a name with several claims", () => {
  const older = entry("sb_b", "n/x", { claimedAt: new Date(1000) });
  const newer = entry("sb_a", "n/x", { claimedAt: new Date(2000) });

  it("is shown as its oldest claim, whatever nodes and order, without going back and forth", async () => {
    const { store, put } = fleet({ a: [newer], b: [older] });
    const watch = read(store);
    await tick(0);
    expect(watch.news()).toStrictEqual(["ADDED n/x sb_b"]);
    put("a", newer);
    put("b", older);
    await tick();
    put("a", older, newer);
    put("b");
    await tick();
    put("a", newer, older);
    await tick();
    expect(watch.news()).toStrictEqual([]);
    await watch.leave();
  });

  it("goes on as the next claim when the shown one goes", async () => {
    const { store, put } = fleet({ a: [older, newer] });
    const watch = read(store);
    await tick(0);
    put("a", newer);
    await tick();
    put("a");
    await tick();
    expect(watch.news()).toStrictEqual(["ADDED n/x sb_b", "DELETED n/x sb_b", "ADDED n/x sb_a", "DELETED n/x sb_a"]);
    await watch.leave();
  });

  it("loses nothing that is shown to a claim that comes later", async () => {
    const { store, put } = fleet({ a: [older] });
    const watch = read(store);
    await tick(0);
    put("b", newer);
    await tick();
    expect(watch.news()).toStrictEqual(["ADDED n/x sb_b"]);
    put("b");
    put("c", newer);
    await tick();
    expect(watch.news()).toStrictEqual([]);
    put("c", { ...newer, phase: "Hibernated" });
    put("a", { ...older, phase: "Hibernated" });
    await tick();
    expect(watch.news()).toStrictEqual(["MODIFIED n/x sb_b"]);
    await watch.leave();
  });

  it("is shown as the claim that is selected", async () => {
    const { store, put } = fleet({ a: [{ ...older, phase: "Hibernated" }], b: [newer] });
    const watch = read(store, { labelSelector: "sandbox.cocoonstack.io/phase=Running" });
    await tick(0);
    expect(watch.news()).toStrictEqual(["ADDED n/x sb_a"]);
    put("a", older);
    await tick();
    expect(watch.news()).toStrictEqual(["DELETED n/x sb_a", "ADDED n/x sb_b"]);
    await watch.leave();
  });
});

describe("a watch of one name", () => {
  const pinned = { namespace: "n", fieldSelector: "metadata.name=x", bookmark: true };

  it("W4: shows an unpublished claim until it is released, and then lets go of it once", async () => {
    const { store, nodes } = fleet({ a: [] });
    nodes.node("a").hold({ entry: entry("sb_1", "n/x"), archived: false });
    const watch = read(store, pinned);
    await tick(0);
    expect(watch.news()).toStrictEqual(["ADDED n/x sb_1", "BOOKMARK"]);
    await tick(5000);
    expect(watch.news()).toStrictEqual([]);
    nodes.node("a").lose("sb_1");
    await tick(2000);
    expect(watch.news()).toStrictEqual(["DELETED n/x sb_1"]);
    await tick(5000);
    expect(watch.news()).toStrictEqual([]);
    await watch.leave();
  });

  it("W4: lets go of an unpublished claim that leaves the selection", async () => {
    const { store, nodes } = fleet({ a: [] });
    nodes.node("a").hold({ entry: entry("sb_1", "n/x"), archived: false });
    const watch = read(store, { ...pinned, labelSelector: "sandbox.cocoonstack.io/phase=Running" });
    await tick(5000);
    expect(watch.news()).toStrictEqual(["ADDED n/x sb_1", "BOOKMARK"]);
    nodes.node("a").hold({ entry: entry("sb_1", "n/x", { phase: "Hibernated" }), archived: false });
    await tick(2000);
    expect(watch.news()).toStrictEqual(["DELETED n/x sb_1"]);
    expect(watch.events.at(-1)).toMatchObject({ sandbox: { phase: "Running" } });
    await tick(5000);
    expect(watch.news()).toStrictEqual([]);
    await watch.leave();
  });

  it("W4: lets go of our own claim at the tick after its release, without asking its node", async () => {
    const { store, nodes } = fleet({ a: [] });
    const { id } = await store.claim("n", "x", { template: "rt" });
    const watch = read(store, pinned);
    await tick(5000);
    expect(watch.news()).toStrictEqual([`ADDED n/x ${id}`, "BOOKMARK"]);
    await store.release("a", id);
    nodes.calls.length = 0;
    await tick(1000);
    expect(watch.news()).toStrictEqual([`DELETED n/x ${id}`]);
    expect(nodes.calls).toStrictEqual([]);
    await watch.leave();
  });

  it("W5: of an absent name sends its bookmark only, and asks no node while it waits", async () => {
    const { store, nodes, put } = fleet({ a: [entry("sb_1", "n/y")], b: [] }, { watchPollMs: 10 });
    const watch = read(store, pinned);
    await tick(0);
    nodes.calls.length = 0;
    nodes.node("a").hold({ entry: entry("sb_2", "n/x"), archived: false });
    await tick(10_000);
    expect(watch.news()).toStrictEqual(["BOOKMARK"]);
    expect(nodes.calls).toStrictEqual([]);
    // It shows up when its node's inventory does.
    put("a", entry("sb_1", "n/y"), entry("sb_2", "n/x"));
    await tick(10);
    expect(watch.news()).toStrictEqual(["ADDED n/x sb_2"]);
    await watch.leave();
  });

  it("looks at one inventory and asks nobody while its node lists it", async () => {
    const { store, source, nodes, put } = fleet({ a: [entry("sb_1", "n/x")], b: [] });
    const watch = read(store, pinned);
    await tick(0);
    const inventories = vi.spyOn(source, "nodeInventory");
    await tick(3000);
    put("a", entry("sb_1", "n/x", { phase: "Hibernated" }));
    await tick();
    expect(watch.news()).toStrictEqual(["ADDED n/x sb_1", "BOOKMARK", "MODIFIED n/x sb_1"]);
    expect(new Set(inventories.mock.calls.map(([node]) => node))).toStrictEqual(new Set(["a"]));
    expect(nodes.calls).toStrictEqual([]);
    await watch.leave();
  });

  it("asks for the held claim by its id, at its node alone", async () => {
    const { store, nodes, put } = fleet({ a: [entry("sb_1", "n/x")], b: [] });
    nodes.node("a").hold({ entry: entry("sb_1", "n/x"), archived: false });
    const watch = read(store, pinned);
    await tick(0);
    put("a");
    await tick(2000);
    expect(watch.news()).toStrictEqual(["ADDED n/x sb_1", "BOOKMARK"]);
    expect(nodes.calls.map(({ verb, address, id }) => `${verb} ${address} ${id}`)).toStrictEqual([
      "sandbox a sb_1",
      "sandbox a sb_1",
    ]);
    await watch.leave();
  });

  it("asks by name for a claim without an id", async () => {
    const { store, nodes, put } = fleet({ a: [entry("", "n/x")] });
    nodes.node("a").hold({ entry: entry("sb_1", "n/x"), archived: false });
    const watch = read(store, pinned);
    await tick(0);
    put("a");
    await tick();
    expect(nodes.calls.map(({ verb, id }) => `${verb} ${id}`)).toStrictEqual(["sandboxesByRef n/x"]);
    expect(watch.news()).toStrictEqual(["ADDED n/x ", "BOOKMARK"]);
    await watch.leave();
  });

  it.each([
    ["stays silent", staysSilent()],
    ["ignores its signal", () => new Promise(() => undefined)],
    ["cannot be reached", fails({ kind: "unsent" })],
  ])("lets go of a sandbox whose node %s", async (_case, step) => {
    const { lines, logger } = recorder();
    const { store, nodes, put } = fleet({ a: [entry("sb_1", "n/x")] }, { logger });
    nodes.node("a").always("sandbox", step);
    const watch = read(store, pinned);
    await tick(0);
    put("a");
    await tick(1500);
    expect(watch.news()).toStrictEqual(["ADDED n/x sb_1", "BOOKMARK", "DELETED n/x sb_1"]);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatchObject({
      level: "debug",
      fields: { func: "scale.liveOnNode", node: "a", op: "watch" },
      message: expect.stringMatching(/^node did not answer a live watch node=a err=/),
    });
    await watch.leave();
  });

  it("says that its node's inventory is unavailable, and asks the node", async () => {
    const { lines, logger } = recorder();
    const { store, source, nodes } = fleet({ a: [entry("sb_1", "n/x")] }, { logger });
    nodes.node("a").hold({ entry: entry("sb_1", "n/x"), archived: false });
    const watch = read(store, pinned);
    await tick(0);
    source.partition("a");
    await tick();
    expect(lines[0]).toStrictEqual({
      level: "debug",
      fields: { func: "scale.matchOnNode", node: "a", op: "watch" },
      message: "node inventory unavailable during watch; skipping node node=a",
    });
    // A node that cannot be read has no address to ask at.
    expect(watch.news()).toStrictEqual(["ADDED n/x sb_1", "BOOKMARK", "DELETED n/x sb_1"]);
    source.partition("a", false);
    await tick();
    expect(watch.news()).toStrictEqual(["ADDED n/x sb_1"]);
    await watch.leave();
  });

  it("goes on as another claim of the name when the shown one goes", async () => {
    const { store, put } = fleet({ a: [entry("sb_1", "n/x")] });
    const watch = read(store, pinned);
    await tick(0);
    put("a");
    put("b", entry("sb_2", "n/x"));
    await tick();
    expect(watch.news()).toStrictEqual(["ADDED n/x sb_1", "BOOKMARK", "DELETED n/x sb_1", "ADDED n/x sb_2"]);
    put("b");
    put("a", entry("sb_2", "n/x"));
    await tick();
    expect(watch.news()).toStrictEqual([]);
    await watch.leave();
  });

  it("begins with a claim of the name that is selected, when the first one is not", async () => {
    const { store } = fleet({ a: [entry("sb_1", "n/x", { phase: "Hibernated" })], b: [entry("sb_2", "n/x")] });
    const watch = read(store, { ...pinned, labelSelector: "sandbox.cocoonstack.io/phase=Running" });
    await tick();
    expect(watch.news()).toStrictEqual(["ADDED n/x sb_2", "BOOKMARK"]);
    await watch.leave();
  });

  it("ends while it asks, and takes the question along", async () => {
    const { store, nodes, put } = fleet({ a: [entry("sb_1", "n/x")] });
    nodes.node("a").always("sandbox", staysSilent());
    const caller = new AbortController();
    const watch = read(store, { ...pinned, signal: caller.signal });
    await tick(0);
    put("a");
    await tick(1100);
    expect(nodes.calls).toHaveLength(1);
    caller.abort();
    await watch.done;
    await tick(0);
    expect(nodes.calls[0]?.signal?.aborted).toBe(true);
    expect(vi.getTimerCount()).toBe(0);
    expect(watch.news()).toStrictEqual(["ADDED n/x sb_1", "BOOKMARK"]);
  });
});

describe("a watch whose source fails", () => {
  it("takes a failed list for an empty one, and says so", async () => {
    const { lines, logger } = recorder();
    const { store, source } = fleet({ a: [entry("sb_1", "n/x")] }, { logger });
    const broken = vi.spyOn(source, "listNodes").mockImplementation(() => {
      throw new Error("no list");
    });
    const watch = read(store, { bookmark: true });
    await tick(0);
    expect(watch.news()).toStrictEqual(["BOOKMARK"]);
    await tick();
    expect(watch.news()).toStrictEqual([]);
    expect(lines).toMatchObject([
      {
        level: "error",
        fields: { func: "scale.runWatch", err: new Error("no list") },
        message: "initial watch list failed",
      },
      {
        level: "error",
        fields: { func: "scale.runWatch", err: new Error("no list") },
        message: "watch poll list failed",
      },
    ]);
    broken.mockRestore();
    await tick();
    expect(watch.news()).toStrictEqual(["ADDED n/x sb_1"]);
    await watch.leave();
  });

  it("loses no change to a tick that failed", async () => {
    const { store, source, put } = fleet({ a: [entry("sb_1", "n/x")] });
    const watch = read(store);
    await tick(0);
    put("a", entry("sb_2", "n/y"));
    const broken = vi.spyOn(source, "listNodes").mockImplementation(() => {
      throw new Error("no list");
    });
    await tick(3000);
    expect(watch.news()).toStrictEqual(["ADDED n/x sb_1"]);
    broken.mockRestore();
    await tick();
    expect(watch.news().sort()).toStrictEqual(["ADDED n/y sb_2", "DELETED n/x sb_1"]);
    await watch.leave();
  });

  it("of one name goes on as well", async () => {
    const { lines, logger } = recorder();
    const { store, source } = fleet({ a: [entry("sb_1", "n/x")] }, { logger });
    const broken = vi.spyOn(source, "listNodes").mockImplementation(() => {
      throw new Error("no list");
    });
    const watch = read(store, { namespace: "n", fieldSelector: "metadata.name=x", bookmark: true });
    await tick(0);
    await tick();
    expect(lines.map((line) => line.message)).toStrictEqual(["initial watch list failed", "watch poll list failed"]);
    broken.mockRestore();
    await tick();
    expect(watch.news()).toStrictEqual(["BOOKMARK", "ADDED n/x sb_1"]);
    await watch.leave();
  });
});

describe("the reader of a watch", () => {
  const many = (count: number, phase: string): InventoryEntry[] =>
    Array.from({ length: count }, (_, at) => entry(`sb_${at}`, `n/${String(at).padStart(4, "0")}`, { phase }));

  it("misses nothing when it is slow: what waits is a buffer and one comparison", async () => {
    const { store, put } = fleet({ a: [] });
    const iterator = store.watch()[Symbol.asyncIterator]();
    const first = iterator.next();
    put("a", ...many(100, "Running"));
    await tick();
    await expect(first).resolves.toMatchObject({ value: { type: "ADDED", sandbox: { name: "0000" } } });
    // Nothing of this is taken in while 99 events wait.
    for (const phase of ["Hibernated", "Running", "Hibernated", "Broken"]) {
      put("a", ...many(100, phase));
      await tick();
    }
    const told: string[] = [];
    for (let step = 0; step < 99; step += 1) {
      const { value } = (await iterator.next()) as IteratorYieldResult<SandboxEvent>;
      told.push(value.type === "BOOKMARK" ? value.type : `${value.type} ${value.sandbox.phase}`);
    }
    expect(new Set(told)).toStrictEqual(new Set(["ADDED Running"]));
    const later = iterator.next();
    await tick();
    await expect(later).resolves.toMatchObject({ value: { type: "MODIFIED", sandbox: { phase: "Broken" } } });
    await iterator.return?.();
  });

  it("is buffered for up to 64 events", async () => {
    const { store, put } = fleet({ a: [] });
    const iterator = store.watch()[Symbol.asyncIterator]();
    const first = iterator.next();
    put("a", entry("sb_1", "n/x"));
    await tick();
    await first;
    for (let at = 0; at < 32; at += 1) {
      put("a", entry("sb_1", "n/x"), entry(`sb_y${at}`, "n/y"));
      await tick();
    }
    const told: string[] = [];
    for (let step = 0; step < 63; step += 1) {
      const { value } = (await iterator.next()) as IteratorYieldResult<SandboxEvent>;
      told.push(value.type);
    }
    // One comes, then each takes the place of the one before: all of them were seen.
    expect(told.filter((type) => type === "ADDED")).toHaveLength(32);
    expect(told.filter((type) => type === "DELETED")).toHaveLength(31);
    await iterator.return?.();
  });

  it("may ask for several events at once", async () => {
    const { store, put } = fleet({ a: [entry("sb_1", "n/x")] });
    const iterator = store.watch()[Symbol.asyncIterator]();
    const reads = Promise.all([iterator.next(), iterator.next(), iterator.next(), iterator.next()]);
    put("a", entry("sb_1", "n/x"), entry("sb_2", "n/y"), entry("sb_3", "n/z"));
    await tick();
    await expect(iterator.return?.()).resolves.toStrictEqual({ done: true, value: undefined });
    await expect(reads).resolves.toMatchObject([
      { done: false, value: { sandbox: { name: "x" } } },
      { done: false, value: { sandbox: { name: "y" } } },
      { done: false, value: { sandbox: { name: "z" } } },
      { done: true },
    ]);
  });

  it("ends a watch by its signal, while it waits and for good", async () => {
    const { store } = fleet({ a: [entry("sb_1", "n/x")] });
    const caller = new AbortController();
    const removed = vi.spyOn(caller.signal, "removeEventListener");
    const watch = read(store, { signal: caller.signal });
    await tick();
    caller.abort(new Error("enough"));
    await watch.done;
    expect(watch.news()).toStrictEqual(["ADDED n/x sb_1"]);
    expect(removed).toHaveBeenCalledTimes(1);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("gets nothing of a watch whose signal fired before", async () => {
    const { store } = fleet({ a: [entry("sb_1", "n/x")] });
    const watch = read(store, { signal: AbortSignal.abort() });
    await watch.done;
    expect(watch.events).toStrictEqual([]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("ends a watch by leaving its loop, and takes its listener away", async () => {
    const { store } = fleet({ a: [entry("sb_1", "n/x")] });
    const caller = new AbortController();
    const added = vi.spyOn(caller.signal, "addEventListener");
    const removed = vi.spyOn(caller.signal, "removeEventListener");
    const seen: string[] = [];
    for await (const event of store.watch({ signal: caller.signal })) {
      seen.push(inWords(event));
      break;
    }
    expect(seen).toStrictEqual(["ADDED n/x sb_1"]);
    expect(removed).toHaveBeenCalledTimes(added.mock.calls.length);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("that never reads costs nothing, and that leaves early gets nothing", async () => {
    const { store, source } = fleet({ a: [entry("sb_1", "n/x")] });
    const lists = vi.spyOn(source, "listNodes");
    const iterator = store.watch()[Symbol.asyncIterator]();
    await tick(5000);
    expect(lists).not.toHaveBeenCalled();
    expect(vi.getTimerCount()).toBe(0);
    await iterator.return?.();
    await expect(iterator.next()).resolves.toStrictEqual({ done: true, value: undefined });
  });

  it("shares its timer, its states and its events with others", async () => {
    const { store, source, put } = fleet({ a: [entry("sb_1", "n/x")], b: [] });
    const watches = Array.from({ length: 20 }, () => read(store, { namespace: "n" }));
    await tick(0);
    expect(vi.getTimerCount()).toBe(1);
    const lists = vi.spyOn(source, "listNodes");
    put("a", entry("sb_1", "n/x", { phase: "Hibernated" }));
    await tick(3000);
    expect(lists).toHaveBeenCalledTimes(1);
    const last = watches.map((watch) => watch.events.at(-1));
    expect(last[0]).toMatchObject({ type: "MODIFIED" });
    expect(new Set(last).size).toBe(1);
    await Promise.all(watches.map((watch) => watch.leave()));
    expect(vi.getTimerCount()).toBe(0);
  });

  it("gets a whole picture from each new watch", async () => {
    const { store, put } = fleet({ a: [entry("sb_1", "n/x")] });
    const first = read(store);
    await tick(0);
    await first.leave();
    put("a", entry("sb_2", "n/y"));
    const second = read(store);
    await tick(2000);
    expect(second.news()).toStrictEqual(["ADDED n/y sb_2"]);
    put("a");
    await tick();
    expect(second.news()).toStrictEqual(["DELETED n/y sb_2"]);
    await second.leave();
  });
});

describe("the poll interval", () => {
  it.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 31])("is not %d", (watchPollMs) => {
    expect(() => createStore(new StaticInventorySource(), { watchPollMs })).toThrow(TypeError);
  });
});
