import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { InventoryEntry, Sandbox } from "./domain.ts";
import { createStore } from "./index.ts";
import type { AgePosition, PageOptions, SandboxStore } from "./index.ts";
import { ScriptedNodes, StaticInventorySource } from "./testing/index.ts";

function entry(id: string, startedMs: number | undefined, namespace = "ns1"): InventoryEntry {
  const claimedAt = startedMs === undefined ? undefined : new Date(startedMs);
  return { name: `${namespace}/${id}`, id, phase: "Running", claimedAt };
}

const fleets = fc
  .uniqueArray(
    fc.tuple(
      fc.integer({ min: 0, max: 60 }),
      fc.option(fc.integer({ min: 0, max: 5 })),
      fc.constantFrom("a", "b", "c"),
    ),
    { selector: ([id]) => id, maxLength: 40 },
  )
  .map((rows) =>
    rows.map(([id, started, node]) => ({
      node,
      entry: entry(`sb_${id}`, started === null ? undefined : started * 400),
    })),
  );
type Fleet = readonly { readonly node: string; readonly entry: InventoryEntry }[];

function storeOf(fleet: Fleet): SandboxStore {
  const source = new StaticInventorySource();
  for (const node of ["a", "b", "c"]) {
    source.put({ node, entries: fleet.filter((one) => one.node === node).map((one) => one.entry) });
  }
  return createStore(source);
}

async function ids(store: SandboxStore, options: PageOptions = {}): Promise<readonly string[]> {
  return (await store.page(options)).sandboxes.map((sandbox) => sandbox.id);
}

async function walk(stores: (page: number) => SandboxStore, limit: number, newestFirst: boolean): Promise<string[]> {
  const seen: string[] = [];
  let after: AgePosition | undefined;
  for (let page = 0; ; page += 1) {
    const { sandboxes, next } = await stores(page).page({ newestFirst, limit, after });
    expect(sandboxes.length).toBeLessThanOrEqual(limit);
    seen.push(...sandboxes.map((sandbox) => sandbox.id));
    if (next === undefined) {
      return seen;
    }
    after = next;
  }
}

describe("pages by age", () => {
  it("of any size are the whole listing cut up, in order", async () => {
    await fc.assert(
      fc.asyncProperty(fleets, fc.integer({ min: 1, max: 7 }), fc.boolean(), async (fleet, limit, newestFirst) => {
        const store = storeOf(fleet);
        const whole = await ids(store, { newestFirst });
        const sign = newestFirst ? -1 : 1;
        const sorted = fleet
          .map((one) => one.entry)
          .toSorted((a, b) => {
            const order = (a.claimedAt?.getTime() ?? 0) - (b.claimedAt?.getTime() ?? 0) || (a.id < b.id ? -1 : 1);
            return sign * order;
          });
        expect(whole).toStrictEqual(sorted.map((one) => one.id));
        expect(await walk(() => store, limit, newestFirst)).toStrictEqual(whole);
        expect(await walk(() => storeOf(fleet.toReversed()), limit, !newestFirst)).toStrictEqual(whole.toReversed());
      }),
    );
  });

  it("meet sandboxes that stay once, whatever comes and goes between them", async () => {
    const churn = fc.array(fc.uniqueArray(fc.integer({ min: 0, max: 60 })), { minLength: 1, maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(
        fleets,
        churn,
        fc.integer({ min: 1, max: 5 }),
        fc.boolean(),
        async (fleet, gone, limit, newestFirst) => {
          const leaving = gone.map((numbers) => new Set(numbers.map((number) => `sb_${number}`)));
          const away = new Set(leaving.flatMap((some) => [...some]));
          const stays = fleet.map((one) => one.entry.id).filter((id) => !away.has(id));
          const stores = leaving.map((some) => storeOf(fleet.filter((one) => !some.has(one.entry.id))));
          const seen = await walk((page) => stores[page % stores.length] ?? storeOf([]), limit, newestFirst);
          expect(new Set(seen).size).toBe(seen.length);
          expect(stays.filter((id) => !seen.includes(id))).toStrictEqual([]);
        },
      ),
    );
  });

  it("hold what is meant of one namespace, or of all", async () => {
    const entries = [
      entry("sb_1", 1, "a"),
      entry("sb_2", 2, "b"),
      entry("sb_3", 3, "a"),
      { ...entry("sb_4", 4, "a"), phase: "Hibernated" },
      entry("", 5, "a"),
    ];
    const store = createStore(new StaticInventorySource([{ node: "n", entries }]));
    expect(await ids(store)).toStrictEqual(["sb_1", "sb_2", "sb_3", "sb_4"]);
    expect(await ids(store, { namespace: "a", newestFirst: true })).toStrictEqual(["sb_4", "sb_3", "sb_1"]);
    expect(await ids(store, { namespace: "none" })).toStrictEqual([]);
    const running = (sandbox: Sandbox): boolean => !sandbox.paused;
    const page = await store.page({ namespace: "a", newestFirst: true, matches: running, limit: 1 });
    expect(page).toMatchObject({ sandboxes: [{ id: "sb_3", node: "n" }], next: { startedMs: 3, id: "sb_3" } });
    expect((await store.page({ namespace: "a", matches: running, limit: 2 })).next).toBeUndefined();
  });

  it("show our own writes at once, and nodes that cannot be read not at all", async () => {
    const source = new StaticInventorySource([
      { node: "a", pools: [{ template: "t", warm: 1, target: 1 }], entries: [entry("sb_1", 1), entry("sb_2", 2)] },
      { node: "b", entries: [entry("sb_3", 3)] },
    ]);
    const nodes = new ScriptedNodes();
    nodes.node("a").hold({ entry: entry("sb_2", 2), archived: false });
    const store = createStore(source, { clients: nodes });
    const made = await store.claim("ns1", "x", { template: "t" });
    expect(await ids(store, { namespace: "ns1" })).toStrictEqual(["sb_1", "sb_2", "sb_3", made.id]);
    expect(await ids(store, { namespace: "ns2" })).toStrictEqual([]);
    await store.release("a", "sb_1");
    await store.pause("a", "sb_2");
    const { sandboxes } = await store.page({ namespace: "ns1" });
    expect(sandboxes.map(({ id, paused }) => [id, paused])).toStrictEqual([
      ["sb_2", true],
      ["sb_3", false],
      [made.id, false],
    ]);
    source.partition("b");
    expect(await ids(store, { newestFirst: true, limit: 5 })).toStrictEqual([made.id, "sb_2"]);
  });

  it("do not hold the event loop for the whole fleet", async () => {
    const entries = Array.from({ length: 400 }, (_, index) => entry(`sb_${index}`, index));
    const source = new StaticInventorySource(Array.from({ length: 20 }, (_, node) => ({ node: `n${node}`, entries })));
    const store = createStore(source);
    let turns = 0;
    let over = false;
    const count = (): void => {
      turns += 1;
      if (!over) {
        setImmediate(count);
      }
    };
    setImmediate(count);
    const slow = (): boolean => {
      const end = performance.now() + 0.02;
      while (performance.now() < end) {
        // As costly as a filter may be.
      }
      return true;
    };
    await store.page({ matches: slow });
    over = true;
    expect(turns).toBeGreaterThan(5);
  });

  it("end with their caller, and have a size", async () => {
    const store = storeOf([]);
    await expect(store.page({ signal: AbortSignal.abort() })).rejects.toMatchObject({ code: "aborted" });
    for (const limit of [0, -1, 1.5, Number.NaN]) {
      await expect(store.page({ limit })).rejects.toMatchObject({ code: "bad_request" });
    }
  });
});

describe("a sandbox that a node lists with another start than its claim had", () => {
  const POOL = { template: "t", net: "none", size: "small" };
  const START_MS = 1_790_000_000_000;

  /** A store that has claimed three sandboxes which no view lists. */
  async function claimed(): Promise<{ readonly source: StaticInventorySource; readonly store: SandboxStore }> {
    const source = new StaticInventorySource([{ node: "a", pools: [{ ...POOL, warm: 9, target: 9 }] }]);
    const nodes = new ScriptedNodes();
    for (const number of [1, 2, 3]) {
      const deadline = new Date(START_MS + number * 10 + 300_000);
      nodes.node("a").script("claim", () => ({ kind: "delivered", id: `sb_${number}`, token: "t", deadline }));
    }
    const store = createStore(source, { clients: nodes });
    for (const name of ["x1", "x2", "x3"]) {
      await store.claim("ns1", name, POOL, { ttlSeconds: 300 });
    }
    return { source, store };
  }

  const list = (source: StaticInventorySource, starts: readonly (number | undefined)[]): void =>
    source.put({ node: "a", entries: starts.map((start, index) => entry(`sb_${index + 1}`, start)) });

  it.each([
    ["a little later", [START_MS + 10, START_MS + 35, START_MS + 30]],
    ["a little earlier", [START_MS + 10, START_MS + 5, START_MS + 30]],
    ["without any", [undefined, undefined, undefined]],
  ])("stays in its place once a page has shown it: %s", async (_what, starts) => {
    const { source, store } = await claimed();
    const first = await store.page({ newestFirst: true, limit: 2 });
    expect(first.sandboxes.map(({ id }) => id)).toStrictEqual(["sb_3", "sb_2"]);
    list(source, starts);
    expect(await ids(store, { newestFirst: true, limit: 2, after: first.next })).toStrictEqual(["sb_1"]);
    expect(await ids(store)).toStrictEqual(["sb_1", "sb_2", "sb_3"]);
    // Also when the node lists the same anew, and when we write to it.
    list(source, starts);
    expect(await ids(store)).toStrictEqual(["sb_1", "sb_2", "sb_3"]);
  });

  it("goes where its node says when no page has shown it, or when the two are far apart", async () => {
    const fresh = await claimed();
    list(fresh.source, [START_MS + 10, START_MS + 5, START_MS + 30]);
    expect(await ids(fresh.store)).toStrictEqual(["sb_2", "sb_1", "sb_3"]);
    const { source, store } = await claimed();
    expect(await ids(store)).toStrictEqual(["sb_1", "sb_2", "sb_3"]);
    list(source, [START_MS + 10, START_MS + 20 + 60_001, START_MS + 30]);
    expect(await ids(store)).toStrictEqual(["sb_1", "sb_3", "sb_2"]);
  });
});
