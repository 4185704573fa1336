import { createStore } from "@org/scale";
import type { InventoryEntry, NodeClaimReply, SandboxStore } from "@org/scale";
import { compare } from "../compare.ts";
import type { Contender } from "../compare.ts";
import type { Unit } from "../figures.ts";
import { FakeNodes } from "../fake-nodes.ts";
import { FleetSource, NAMESPACE, POOL, sizeName } from "../fleet.ts";
import type { FleetSize } from "../fleet.ts";
import { bytesPerTime } from "../heap.ts";
import { viewOf } from "../object-view.ts";
import type { ObjectView } from "../object-view.ts";
import { publishedFor } from "../published.ts";
import { createRandom } from "../random.ts";
import type { Bench, Suite } from "../suite.ts";

/** The bar of everything that reads or changes one sandbox: its cost must not follow the fleet's size. */
const AS_FOR_ONE = { limit: 1.5, on: "ratio", side: "at most" } as const;
const ONE: FleetSize = { nodes: 1, perNode: 1 };
const MAP = "Map.get, the object, its promise";
const LARGEST = "200x2000";
const NEAR_PASS = { limit: 2, on: "ratio", side: "at most" } as const;
const NEAR_MAP = { limit: 3, on: "ratio", side: "at most" } as const;
const PASS = "one pass over the pools of all nodes";
/** Claims that are begun before the first of them is answered. */
const CLAIMS = 500;

/** Claim routing and reads of one sandbox, without any network. */
export const storeSuite: Suite = {
  name: "store",
  what: "look-ups and claim routing of the store over an inventory in memory",
  async run(bench) {
    const one = new FleetSource(ONE);
    for (const size of bench.fleets) {
      const source = new FleetSource(size);
      await reads(bench, source, one);
      await claims(bench, source);
    }
  },
};

type Get = (store: SandboxStore, entry: InventoryEntry) => Promise<unknown>;

const byName: Get = (store, entry) => store.get(NAMESPACE, nameOf(entry));
const byId: Get = (store, entry) => store.getByClaimId(NAMESPACE, entry.id, (id) => id === entry.id);

const NAMES = new WeakMap<InventoryEntry, string>();

/** An entry's name within the namespace, made once: a caller has it at hand. */
function nameOf(entry: InventoryEntry): string {
  const known = NAMES.get(entry);
  if (known !== undefined) {
    return known;
  }
  const name = entry.name.slice(NAMESPACE.length + 1);
  NAMES.set(entry, name);
  return name;
}

/** Asks for the entries in turn. */
function getter(source: FleetSource, get: Get, entries: readonly InventoryEntry[]): Contender {
  const store = createStore(source);
  let at = 0;
  return {
    run: async (times) => {
      let found: unknown;
      for (let time = 0; time < times; time += 1) {
        const entry = entries[at];
        at = at + 1 < entries.length ? at + 1 : 0;
        if (entry !== undefined) {
          found = await get(store, entry);
        }
      }
      return found;
    },
  };
}

/** The least that an answer can cost: one map of the fleet, the object that is answered, and the promise that brings it. */
function bareMap(
  source: FleetSource,
  keyOf: (entry: InventoryEntry) => string,
  entries: readonly InventoryEntry[],
): Contender {
  const map = new Map<string, { readonly node: string; readonly entry: InventoryEntry }>();
  for (const held of source.all()) {
    map.set(keyOf(held.entry), held);
  }
  let at = 0;
  return {
    run: async (times) => {
      let found: ObjectView | undefined;
      for (let time = 0; time < times; time += 1) {
        const asked = entries[at];
        at = at + 1 < entries.length ? at + 1 : 0;
        const held = asked === undefined ? undefined : map.get(keyOf(asked));
        if (held !== undefined) {
          found = await Promise.resolve(viewOf(held.node, held.entry));
        }
      }
      return found;
    },
  };
}

/** Entries all over the fleet, more than the store remembers the nodes of. */
function scattered(source: FleetSource): InventoryEntry[] {
  const random = createRandom(7);
  const entries = [...source.all()].map(({ entry }) => entry);
  return Array.from({ length: Math.min(40_000, entries.length) }, () => {
    const entry = entries[Math.floor(random() * entries.length)];
    return entry ?? source.last();
  });
}

async function reads(bench: Bench, source: FleetSource, one: FleetSource): Promise<void> {
  const fleet = sizeName(source.size);
  const keys = [
    { name: "store.get-by-name", get: byName, keyOf: (entry: InventoryEntry) => entry.name },
    { name: "store.get-by-id", get: byId, keyOf: (entry: InventoryEntry) => entry.id },
  ];
  for (const { name, get, keyOf } of keys) {
    const last = [source.last()];
    const asked = getter(source, get, last);
    const costs = await compare(
      { asked, one: getter(one, get, [one.last()]), map: bareMap(source, keyOf, last) },
      bench.effort,
    );
    const shared = { fleet, value: costs.micros("asked"), unit: "us" as Unit, published: publishedFor(name, fleet) };
    bench.report({
      ...shared,
      name,
      baseline: costs.micros("one"),
      ratio: costs.ratio("asked", "one"),
      against: "the same with 1 sandbox",
      bar: AS_FOR_ONE,
    });
    bench.report({
      ...shared,
      name: `${name}.by-map`,
      baseline: costs.micros("map"),
      ratio: costs.ratio("asked", "map"),
      against: MAP,
      bar: NEAR_MAP,
    });
    bench.report({ name: `${name}.heap`, fleet, value: await bytesPerTime(asked.run), unit: "B" });

    const all = scattered(source);
    const anyOf = await compare({ asked: getter(source, get, all), map: bareMap(source, keyOf, all) }, bench.effort);
    bench.report({
      name: `${name}.scattered`,
      fleet,
      value: anyOf.micros("asked"),
      unit: "us",
      baseline: anyOf.micros("map"),
      ratio: anyOf.ratio("asked", "map"),
      against: MAP,
    });
  }
}

/** From the call of a claim to the call of its node, which is made before the claim first waits. */
function claimer(source: FleetSource, each: () => void): Contender {
  let answer = Promise.withResolvers<NodeClaimReply>();
  let asked = 0;
  const claim = (): Promise<NodeClaimReply> => {
    asked += 1;
    return answer.promise;
  };
  const store = createStore(source, { clients: new FakeNodes({ claim }) });
  let begun: Promise<unknown>[] = [];
  const settle = async (): Promise<void> => {
    // Always the same sandbox, so that little is remembered of it.
    answer.resolve({ kind: "delivered", id: "sb_0000000000000001", token: "t" });
    await Promise.all(begun);
    begun = [];
    answer = Promise.withResolvers<NodeClaimReply>();
    source.confirm();
  };
  return {
    times: CLAIMS,
    before: settle,
    run: (times) => {
      const before = asked;
      for (let time = 0; time < times; time += 1) {
        each();
        begun.push(store.claim(NAMESPACE, "made", POOL));
      }
      if (asked - before !== times) {
        throw new Error("a claim waited before it called its node: the time up to the call is not what was measured");
      }
      return asked;
    },
  };
}

/** One look at the pools of every node: less than that nobody can do who has not looked before. */
function onePass(source: FleetSource, times: number): Contender {
  return {
    times,
    run: (count) => {
      let warm = 0;
      for (let time = 0; time < count; time += 1) {
        for (const node of source.nodeCapacities()) {
          for (const pool of node.pools) {
            if (pool.warm > 0 && pool.template === POOL.template && pool.net === POOL.net && pool.size === POOL.size) {
              warm += pool.warm;
            }
          }
        }
      }
      return warm;
    },
  };
}

async function claims(bench: Bench, source: FleetSource): Promise<void> {
  const fleet = sizeName(source.size);
  const steady = claimer(source, () => undefined);
  const first = claimer(source, () => source.refill());
  const refills: Contender = {
    times: CLAIMS,
    run: (times) => {
      for (let time = 0; time < times; time += 1) {
        source.refill();
      }
      return source.generation;
    },
  };
  const warm = await compare({ claim: steady, pass: onePass(source, CLAIMS) }, bench.effort);
  bench.report({
    name: "store.warm-candidates",
    fleet,
    value: warm.micros("claim"),
    unit: "us",
    baseline: warm.micros("pass"),
    ratio: warm.ratio("claim", "pass"),
    against: PASS,
    bar: fleet === LARGEST ? NEAR_PASS : undefined,
  });
  // The publishing is not the claim's: it is measured beside it and taken off.
  const cold = await compare({ claim: first, refills, pass: onePass(source, CLAIMS) }, bench.effort);
  const value = cold.micros("claim") - cold.micros("refills");
  bench.report({
    name: "store.warm-candidates.first",
    fleet,
    value,
    unit: "us",
    baseline: cold.micros("pass"),
    ratio: value / cold.micros("pass"),
    against: PASS,
    published: publishedFor("store.warm-candidates.first", fleet),
  });
}
