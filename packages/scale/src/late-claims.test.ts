import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { PoolKey } from "./domain.ts";
import type { Logger, NodeFailure, SandboxStore } from "./ports.ts";
import { createStore } from "./store.ts";
import type { ScriptedStep } from "./testing/index.ts";
import { answers, fails, ScriptedFailure, ScriptedNodes, StaticInventorySource } from "./testing/index.ts";

const POOL: PoolKey = { template: "rt", net: "none", size: "small" };
const LOST: NodeFailure = { kind: "uncertain", detail: "no complete reply" };

interface Fleet {
  readonly nodes: ScriptedNodes;
  readonly store: SandboxStore;
  /** Publishes what the nodes hold. */
  readonly poll: () => void;
  readonly ids: () => readonly string[];
  readonly released: () => readonly (string | undefined)[];
  readonly source: StaticInventorySource;
  readonly errors: string[];
}

function fleet(): Fleet {
  const nodes = new ScriptedNodes();
  const source = new StaticInventorySource();
  const poll = (): void => {
    for (const node of ["a", "b"]) {
      source.put(nodes.node(node).inventory({ pools: [{ ...POOL, warm: node === "a" ? 1 : 0, target: 1 }] }));
    }
  };
  poll();
  const errors: string[] = [];
  const logger: Logger = { debug() {}, info() {}, warn() {}, error: (_fields, message) => errors.push(message) };
  return {
    nodes,
    source,
    errors,
    poll,
    store: createStore(source, { clients: nodes, logger }),
    ids: () => ["a", "b"].flatMap((node) => nodes.node(node).sandboxes.map((row) => row.entry.id)),
    released: () => nodes.calls.filter((call) => call.verb === "release").map((call) => call.id),
  };
}

let appeared = 0;

/** What a node holds for a claim whose reply was lost. */
function appear(nodes: ScriptedNodes, claimRef: string): void {
  appeared += 1;
  const entry = { name: claimRef, claimRef, id: `sb_${String(appeared).padStart(16, "f")}`, phase: "Running" } as const;
  nodes.node("a").hold({ entry, archived: false });
}

/** Loses the reply; the node delivers all the same, now or when the test says so. */
function deliversLate(nodes: ScriptedNodes, when: Promise<void> = Promise.resolve()): ScriptedStep {
  return ({ claim }) => {
    void when.then(() => appear(nodes, claim?.claimRef ?? ""));
    throw new ScriptedFailure(LOST);
  };
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const lost = { code: "claim_failed", node: "a" };

it.each([0, 5, 60, 120])(
  "a sandbox that is delivered %d s after its claim was given up is released",
  async (seconds) => {
    const { nodes, store, poll, ids, released } = fleet();
    const late = Promise.withResolvers<void>();
    nodes.node("a").script("claim", deliversLate(nodes, late.promise));
    await expect(store.claim("ns", "e2b-x", POOL, { uniqueName: true })).rejects.toMatchObject(lost);
    await vi.advanceTimersByTimeAsync(seconds * 1000);
    late.resolve();
    await vi.advanceTimersByTimeAsync(0);
    expect(ids()).toHaveLength(1);
    const [id] = ids();
    poll();
    await vi.advanceTimersByTimeAsync(2000);
    await store.settled();
    expect(released()).toStrictEqual([id]);
    expect(ids()).toStrictEqual([]);
    expect(store.list()).toStrictEqual([]);
    expect(vi.getTimerCount()).toBe(0);
  },
);

it("others of the same name are left alone: those from before the claim, those delivered to us, other nodes' and other names", async () => {
  const { nodes, store, poll, ids, released } = fleet();
  const before = await store.claim("ns", "s", POOL);
  // Somebody else's, which only the view from before the claim tells from a late one.
  await nodes.node("a").claim({ pool: POOL, claimRef: "ns/s" });
  poll();
  const listedAndOurs = await store.claim("ns", "s", POOL);
  await nodes.node("b").claim({ pool: POOL, claimRef: "ns/s" });
  await nodes.node("a").claim({ pool: POOL, claimRef: "ns/other" });
  await nodes.node("a").claim({ pool: POOL, claimRef: "other/s" });
  const kept = ids();
  nodes.node("a").script("claim", deliversLate(nodes));
  await expect(store.claim("ns", "s", POOL, { uniqueName: true })).rejects.toMatchObject(lost);
  await vi.advanceTimersByTimeAsync(0);
  expect(ids()).toHaveLength(kept.length + 1);
  poll();
  await vi.advanceTimersByTimeAsync(200_000);
  expect([...ids()].sort()).toStrictEqual([...kept].sort());
  expect(ids()).toEqual(expect.arrayContaining([before.id, listedAndOurs.id]));
  expect(released()).toHaveLength(1);
});

it("a name that others may use is not watched", async () => {
  const { nodes, store, poll, ids } = fleet();
  nodes.node("a").script("claim", deliversLate(nodes));
  await expect(store.claim("ns", "s", POOL)).rejects.toMatchObject(lost);
  await vi.advanceTimersByTimeAsync(0);
  poll();
  await vi.advanceTimersByTimeAsync(200_000);
  expect(ids()).toHaveLength(1);
});

it("a release that fails is tried again, and a claim that delivers nothing is forgotten", async () => {
  const { nodes, store, poll, ids } = fleet();
  nodes.node("a").script("claim", deliversLate(nodes), fails(LOST)).script("release", answers(503), answers(503));
  await expect(store.claim("ns", "s", POOL, { uniqueName: true })).rejects.toMatchObject(lost);
  await expect(store.claim("ns", "t", POOL, { uniqueName: true })).rejects.toMatchObject(lost);
  await vi.advanceTimersByTimeAsync(0);
  poll();
  await vi.advanceTimersByTimeAsync(1000);
  expect(ids()).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(3000);
  expect(ids()).toStrictEqual([]);
  expect(vi.getTimerCount()).toBe(1);
  await vi.advanceTimersByTimeAsync(150_000);
  expect(vi.getTimerCount()).toBe(0);
});

it("a sandbox whose node will not release it is left to its lease", async () => {
  const { nodes, store, poll, ids, released } = fleet();
  nodes.node("a").script("claim", deliversLate(nodes)).always("release", answers(503));
  await expect(store.claim("ns", "e2b-x", POOL, { uniqueName: true })).rejects.toMatchObject(lost);
  await vi.advanceTimersByTimeAsync(0);
  poll();
  await vi.advanceTimersByTimeAsync(151_000);
  await store.settled();
  expect(ids()).toHaveLength(1);
  expect(vi.getTimerCount()).toBe(0);
  const tries = released().length;
  expect(tries).toBeGreaterThan(1);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(released()).toHaveLength(tries);
});

it("an entry without an id is nothing that could be released", async () => {
  const { nodes, source, store, released, errors } = fleet();
  nodes.node("a").script("claim", fails(LOST));
  await expect(store.claim("ns", "e2b-x", POOL, { uniqueName: true })).rejects.toMatchObject(lost);
  const late = { name: "ns/e2b-x", claimRef: "ns/e2b-x", phase: "Running" } as const;
  nodes.node("a").hold({ archived: false, entry: { ...late, id: "sb_00000000000000c1" } });
  source.put({
    node: "a",
    entries: [
      { ...late, id: "" },
      { ...late, id: "sb_00000000000000c1" },
    ],
  });
  await vi.advanceTimersByTimeAsync(2000);
  await store.settled();
  expect(released()).toStrictEqual(["sb_00000000000000c1"]);
  expect(errors).toStrictEqual([]);
});

it("a source that throws costs a look, not the process", async () => {
  const { nodes, source, store, poll, ids, errors } = fleet();
  nodes.node("a").script("claim", deliversLate(nodes));
  await expect(store.claim("ns", "e2b-x", POOL, { uniqueName: true })).rejects.toMatchObject(lost);
  await vi.advanceTimersByTimeAsync(0);
  poll();
  const broken = vi.spyOn(source, "nodeInventory").mockImplementation(() => {
    throw new Error("no view");
  });
  await vi.advanceTimersByTimeAsync(1000);
  expect(errors).toStrictEqual(["the look for late sandboxes failed"]);
  broken.mockRestore();
  await vi.advanceTimersByTimeAsync(1000);
  expect(ids()).toStrictEqual([]);
});

it("a caller that left gets its late sandbox released as well", async () => {
  const { nodes, store, poll, ids } = fleet();
  const claimed = Promise.withResolvers<void>();
  nodes.node("a").script("claim", async (call) => {
    await claimed.promise;
    return deliversLate(nodes)(call);
  });
  const left = new AbortController();
  const claim = store.claim("ns", "s", POOL, { uniqueName: true, signal: left.signal });
  await vi.advanceTimersByTimeAsync(0);
  left.abort();
  await expect(claim).rejects.toMatchObject({ code: "aborted" });
  claimed.resolve();
  await store.settled();
  await vi.advanceTimersByTimeAsync(0);
  expect(ids()).toHaveLength(1);
  poll();
  await vi.advanceTimersByTimeAsync(2000);
  expect(ids()).toStrictEqual([]);
});

it("a redirect's targets are asked once each, and only a few of them", async () => {
  const nodes = new ScriptedNodes();
  const names = Array.from({ length: 30 }, (_, index) => `n${String(index).padStart(2, "0")}`);
  const source = new StaticInventorySource(
    names.map((node) => ({ node, pools: [{ ...POOL, warm: node === "n00" ? 1 : 0, target: 1 }] })),
  );
  const store = createStore(source, { clients: nodes });
  const targets = Array.from({ length: 10_000 }, (_, index) => names[Math.floor(index / 2) % 30] ?? "");
  for (const name of names) {
    nodes.node(name).always("claim", () => ({ kind: "redirect", targets, requirePromoted: false }));
  }
  await expect(store.claim("ns", "s", POOL)).rejects.toMatchObject({ code: "no_warm_capacity" });
  expect(nodes.calls.length).toBeLessThanOrEqual(9);
});
