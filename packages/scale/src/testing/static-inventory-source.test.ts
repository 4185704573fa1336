import { describe, expect, it } from "vitest";
import { StaticInventorySource } from "./static-inventory-source.ts";

describe("the static inventory", () => {
  it("copies on put and freezes what it hands out", () => {
    const pool = { template: "rt", warm: 1, target: 1 };
    const entry = { name: "n/x", id: "sb_1", phase: "Running", metadata: { k: "v" }, deadline: new Date(1) };
    const source = new StaticInventorySource([{ node: "a", pools: [pool], entries: [entry] }]);
    pool.warm = 99;
    entry.metadata.k = "changed";
    const view = source.nodeInventory("a");
    expect(view).toMatchObject({ address: "a", pools: [{ warm: 1 }], entries: [{ metadata: { k: "v" } }] });
    expect(view?.entries[0]?.deadline).toStrictEqual(new Date(1));
    expect(() => Object.assign(view?.pools[0] ?? {}, { warm: 5 })).toThrow(TypeError);
    expect(() => Object.assign(view?.entries[0]?.metadata ?? {}, { k: "w" })).toThrow(TypeError);
    expect(Object.isFrozen(source.nodeCapacities())).toBe(true);
    expect(Object.isFrozen(source.listNodes())).toBe(true);
  });

  it("shares one array of capacities per generation, in the order of nodes", () => {
    const source = new StaticInventorySource([{ node: "b" }, { node: "ä" }, { node: "a" }]);
    expect(source.listNodes()).toStrictEqual(["a", "b", "ä"]);
    expect(source.nodeCapacities().map((node) => node.node)).toStrictEqual(["a", "b", "ä"]);
    expect(source.nodeCapacities()).toBe(source.nodeCapacities());
  });

  it("lists a partitioned node and lets nobody read it", () => {
    const source = new StaticInventorySource([{ node: "a" }, { node: "b" }]);
    const before = source.generation;
    source.partition("a");
    expect(source.generation).toBeGreaterThan(before);
    expect(source.listNodes()).toStrictEqual(["a", "b"]);
    expect(source.nodeInventory("a")).toBeUndefined();
    expect(source.nodeCapacity("a")).toBeUndefined();
    expect(source.nodeCapacities().map((node) => node.node)).toStrictEqual(["b"]);
    source.partition("a", false);
    expect(source.nodeInventory("a")).toBeDefined();
  });

  it("forgets a removed node and its partition", () => {
    const source = new StaticInventorySource([{ node: "a" }]);
    source.partition("a");
    source.remove("a");
    expect(source.listNodes()).toStrictEqual([]);
    source.put({ node: "a" });
    expect(source.nodeInventory("a")).toBeDefined();
    expect(source.applyCount).toBe(2);
    expect(source.objectCount).toBe(1);
  });
});
