import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readNodeInventory, type NodeInventoryObject } from "./node-inventory.ts";
import { ObjectInventory } from "./object-inventory.ts";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const T0 = Date.parse("2026-09-28T12:00:00Z");

function object(name: string, more: Partial<NodeInventoryObject> = {}): NodeInventoryObject {
  return { metadata: { name }, node: name, address: `${name}:7777`, ...more };
}

function published(name: string, ms: number): NodeInventoryObject {
  return object(name, { publishedAt: new Date(ms).toISOString() });
}

describe("a NodeInventory object", () => {
  it("is read in full", () => {
    const view = readNodeInventory(
      object("n1", {
        publishedAt: "2026-09-28T12:00:00Z",
        entries: [
          {
            name: "ns/a",
            id: "sb_1",
            phase: "Hibernated",
            template: "base",
            claimRef: "ns/a",
            addr: "10.0.0.9:80",
            deadline: "2026-09-28T13:00:00Z",
            claimedAt: "2026-09-28T11:00:00Z",
            claimMetadata: '{"k":"v","n":1}',
            cpuCount: 2,
            memoryBytes: 1_073_741_824,
          },
        ],
        pools: [{ template: "base", net: "none", size: "small", warm: 2, target: 3 }],
        templates: [
          {
            template: "t",
            contentDigest: "sha256:1",
            tenant: "acme",
            createdAt: "2026-09-28T11:00:00Z",
            cpuCount: 1,
            memoryBytes: 5,
            labels: { a: "b" },
          },
        ],
      }),
      7,
    );
    expect(view).toEqual({
      node: "n1",
      address: "n1:7777",
      asOfMs: 7,
      publishedAt: new Date(T0),
      entries: [
        {
          name: "ns/a",
          id: "sb_1",
          phase: "Hibernated",
          template: "base",
          claimRef: "ns/a",
          addr: "10.0.0.9:80",
          deadline: new Date(T0 + 60 * MINUTE),
          claimedAt: new Date(T0 - 60 * MINUTE),
          metadata: { k: "v" },
          cpuCount: 2,
          memoryBytes: 1_073_741_824,
        },
      ],
      pools: [{ template: "base", net: "none", size: "small", warm: 2, target: 3 }],
      templates: [
        {
          template: "t",
          contentDigest: "sha256:1",
          tenant: "acme",
          createdAt: new Date(T0 - 60 * MINUTE),
          cpuCount: 1,
          memoryBytes: 5,
          labels: { a: "b" },
        },
      ],
    });
  });

  it.each([
    ["absent members", {}],
    ["null lists", { entries: null, pools: null, templates: null, address: null, publishedAt: null }],
    ["unknown members", { spec: { x: 1 }, status: [], zone: "z" }],
    ["members of the wrong type", { entries: {}, pools: "x", templates: 3, address: 5, publishedAt: 9 }],
    ["elements that cannot be used", { entries: [null, 1, {}, { id: "sb_1" }], pools: [{}], templates: [null, []] }],
    ["the zero time", { publishedAt: "0001-01-01T00:00:00Z" }],
  ])("with %s is an empty view", (_name, more) => {
    expect(readNodeInventory({ metadata: { name: "n1" }, ...more }, 0)).toEqual({
      node: "n1",
      address: "",
      entries: [],
      pools: [],
      templates: [],
      asOfMs: 0,
    });
  });

  it("with numbers out of range reads them as none", () => {
    for (const bad of [-1, 1.5, 2 ** 53, Number.NaN, "4", null]) {
      const view = readNodeInventory(
        {
          node: "n1",
          entries: [{ name: "a", phase: "Running", cpuCount: bad, memoryBytes: bad }],
          pools: [{ template: "t", warm: bad, target: bad }],
        },
        0,
      );
      expect(view?.entries).toEqual([{ name: "a", id: "", phase: "Running" }]);
      expect(view?.pools).toEqual([{ template: "t", warm: 0, target: 0 }]);
    }
  });

  it.each([[null], [[]], ["x"], [{}], [{ metadata: null }], [{ node: "" }], [{ metadata: { name: 7 } }]])(
    "that names no node (%j) is none",
    (value) => {
      expect(readNodeInventory(value, 0)).toBeUndefined();
    },
  );

  it("never throws, whatever it is", () => {
    const anything = fc.anything();
    fc.assert(
      fc.property(
        fc.record({ node: fc.constant("n1"), entries: anything, pools: anything, templates: anything }),
        (value) => {
          expect(readNodeInventory(value, 0)?.node).toBe("n1");
        },
      ),
    );
  });
});

describe("the inventory", () => {
  it("lists fresh nodes in code-unit order and leaves stale ones out of every read", () => {
    let now = T0;
    const inventory = new ObjectInventory({ clock: () => now });
    inventory.replace([published("b", T0), published("a", T0), published("B", T0)]);
    expect(inventory.listNodes()).toEqual(["B", "a", "b"]);
    now = T0 + 91 * SECOND;
    inventory.replace([published("b", now), published("a", T0)]);
    expect(inventory.listNodes()).toEqual(["b"]);
    expect(inventory.nodeInventory("a")).toBeUndefined();
    expect(inventory.nodeCapacity("a")).toBeUndefined();
    expect(inventory.nodeCapacities().map((one) => one.node)).toEqual(["b"]);
    inventory.replace([published("b", now), published("a", now)]);
    expect(inventory.listNodes()).toEqual(["a", "b"]);
    expect(inventory.nodeCapacity("a")).toMatchObject({ node: "a", address: "a:7777", pools: [], templates: [] });
  });

  it("evicts nobody when nobody publishes, or a node is alone, or no node has a stamp", () => {
    let now = T0;
    const inventory = new ObjectInventory({ clock: () => now });
    inventory.replace([published("a", T0), published("b", T0 + SECOND)]);
    now = T0 + 10 * MINUTE;
    expect(inventory.listNodes()).toEqual(["a", "b"]);
    inventory.replace([published("a", T0)]);
    expect(inventory.listNodes()).toEqual(["a"]);
    inventory.replace([object("a"), object("b")]);
    expect(inventory.listNodes()).toEqual(["a", "b"]);
    inventory.replace([object("a"), published("b", T0)]);
    expect(inventory.listNodes()).toEqual(["b"]);
    inventory.replace([]);
    expect(inventory.listNodes()).toEqual([]);
  });

  it("lets nodes go stale by the clock alone only while a stamp is ahead of it", () => {
    let now = T0;
    const inventory = new ObjectInventory({ clock: () => now });
    inventory.replace([published("a", T0), published("b", T0 + 60 * MINUTE)]);
    const { generation } = inventory;
    now = T0 + 90 * SECOND;
    expect(inventory.listNodes()).toEqual(["a", "b"]);
    expect(inventory.generation).toBe(generation);
    now += 1;
    expect(inventory.generation).toBe(generation + 1);
    expect(inventory.listNodes()).toEqual(["b"]);
    now = T0 + 600 * MINUTE;
    expect(inventory.listNodes()).toEqual(["b"]);
    expect(inventory.generation).toBe(generation + 1);
  });

  it("does not read an object again whose version it knows", () => {
    const inventory = new ObjectInventory({ clock: () => T0 });
    const versioned = (resourceVersion: string): object => ({
      ...published("b", T0),
      metadata: { name: "b", resourceVersion },
    });
    const same = published("a", T0);
    inventory.replace([same, versioned("1")]);
    const [a, b] = [inventory.nodeInventory("a"), inventory.nodeInventory("b")];
    inventory.replace([same, versioned("1")]);
    expect(inventory.nodeInventory("a")).toBe(a);
    expect(inventory.nodeInventory("b")).toBe(b);
    inventory.replace([same, versioned("2")]);
    expect(inventory.nodeInventory("b")).not.toBe(b);
  });

  it("keeps generation, lists and entries of a node that only published again", () => {
    let now = T0;
    const inventory = new ObjectInventory({ clock: () => now });
    const entries = [
      { name: "ns/a", id: "sb_1", phase: "Running", deadline: "2026-09-28T13:00:00Z", claimMetadata: '{"k":"v"}' },
      { name: "ns/b", id: "sb_2", phase: "Running" },
    ];
    const pools = [{ template: "base", warm: 1, target: 2 }];
    const publish = (more: Partial<NodeInventoryObject> = {}): void => {
      now += SECOND;
      inventory.put({ ...published("n1", now), entries, pools, ...more });
      inventory.publish();
    };
    publish();
    const { generation } = inventory;
    const before = inventory.nodeInventory("n1");
    const capacities = inventory.nodeCapacities();
    publish({ entries: structuredClone(entries).toReversed() });
    const after = inventory.nodeInventory("n1");
    expect(inventory.generation).toBe(generation);
    expect(after?.entries).toBe(before?.entries);
    expect(after?.pools).toBe(before?.pools);
    expect(after?.publishedAt).toEqual(new Date(now));
    expect(inventory.nodeCapacities()).toBe(capacities);

    publish({
      entries: [{ name: "ns/c", id: "sb_3", phase: "Running" }, { ...entries[1]!, phase: "Hibernated" }, entries[0]!],
    });
    const changed = inventory.nodeInventory("n1");
    expect(inventory.generation).toBe(generation + 1);
    expect(changed?.entries.map(({ id, phase }) => `${id} ${phase}`)).toEqual([
      "sb_1 Running",
      "sb_2 Hibernated",
      "sb_3 Running",
    ]);
    expect(changed?.entries[0]).toBe(before?.entries[0]);
    expect(inventory.nodeCapacities()).toBe(capacities);

    publish({ entries: [entries[0]!], pools: [{ template: "base", warm: 0, target: 2 }] });
    expect(inventory.generation).toBe(generation + 2);
    expect(inventory.nodeInventory("n1")?.entries).toHaveLength(1);
    expect(inventory.nodeCapacity("n1")?.pools).toEqual([{ template: "base", warm: 0, target: 2 }]);
  });

  it("shows what was put and removed once it is published, all at once", () => {
    const inventory = new ObjectInventory({ clock: () => T0 });
    inventory.replace([published("a", T0)]);
    const { generation } = inventory;
    inventory.put(published("b", T0));
    inventory.put({ no: "node" });
    inventory.remove("a");
    expect(inventory.listNodes()).toEqual(["a"]);
    expect(inventory.generation).toBe(generation);
    inventory.publish();
    expect(inventory.listNodes()).toEqual(["b"]);
    expect(inventory.generation).toBe(generation + 1);
  });

  it("shows whatever is published exactly as if it had been read alone", () => {
    const entry = fc.record({
      name: fc.constantFrom("ns/a", "ns/b", "ns/c"),
      id: fc.constantFrom("sb_1", "sb_2", "sb_3"),
      phase: fc.constantFrom("Running", "Hibernated"),
      deadline: fc.option(fc.constantFrom("2026-09-28T13:00:00Z", "2026-09-28T14:00:00Z"), { nil: undefined }),
      claimMetadata: fc.option(fc.constantFrom('{"a":"1"}', '{"a":"2"}', '{"b":"1"}'), { nil: undefined }),
    });
    const byPlace = (a: object, b: object): number => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1);
    fc.assert(
      fc.property(fc.array(fc.array(entry, { maxLength: 4 }), { maxLength: 5 }), (versions) => {
        const inventory = new ObjectInventory({ clock: () => T0 });
        for (const entries of versions) {
          inventory.put(object("n1", { entries }));
          inventory.publish();
          const alone = readNodeInventory(object("n1", { entries }), 0);
          expect([...(inventory.nodeInventory("n1")?.entries ?? [])].sort(byPlace)).toEqual(
            [...(alone?.entries ?? [])].sort(byPlace),
          );
        }
      }),
    );
  });

  it("dates a view before its stamp, and before now", () => {
    const inventory = new ObjectInventory({ clock: () => T0 });
    const before = performance.now();
    inventory.replace([published("a", T0 - 30 * SECOND), published("b", T0 + 30 * SECOND), object("c")]);
    const after = performance.now();
    const asOf = (node: string): number => inventory.nodeInventory(node)?.asOfMs ?? Number.NaN;
    expect(asOf("a")).toBeGreaterThanOrEqual(before - 31 * SECOND);
    expect(asOf("a")).toBeLessThanOrEqual(after - 31 * SECOND);
    expect(asOf("b")).toBeLessThanOrEqual(after - SECOND);
    expect(asOf("b")).toBeGreaterThanOrEqual(before - SECOND);
    expect(inventory.nodeInventory("c")).toBeUndefined();
  });

  it("takes 0 for the default window and refuses what is no window", () => {
    const inventory = new ObjectInventory({ staleAfterMs: 0, clock: () => T0 + 90 * SECOND });
    inventory.replace([published("a", T0), published("b", T0 + 90 * SECOND)]);
    expect(inventory.listNodes()).toEqual(["a", "b"]);
    const strict = new ObjectInventory({ staleAfterMs: 1, clock: () => T0 + SECOND });
    strict.replace([published("a", T0), published("b", T0 + SECOND)]);
    expect(strict.listNodes()).toEqual(["b"]);
    for (const staleAfterMs of [-1, Number.NaN]) {
      expect(() => new ObjectInventory({ staleAfterMs })).toThrow(TypeError);
    }
  });
});

describe("onChange", () => {
  it("tells of published changes alone, until it is left", () => {
    const inventory = new ObjectInventory();
    const told: number[] = [];
    const leave = inventory.onChange(() => void told.push(inventory.generation));
    inventory.put(object("n1", { entries: [{ name: "ns/a", id: "sb_1", phase: "Running" }] }));
    expect(told).toEqual([]);
    inventory.publish();
    inventory.put(published("n1", T0));
    inventory.publish();
    inventory.publish();
    expect(told).toEqual([1, 2]);
    leave();
    inventory.remove("n1");
    inventory.publish();
    expect(told).toEqual([1, 2]);
  });
});
