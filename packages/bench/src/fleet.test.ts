import { describe, expect, it } from "vitest";
import { FleetSource, nodeName, rowsOf, sizeName } from "./fleet.ts";

const SIZE = { nodes: 5, perNode: 200 };

describe("a fleet", () => {
  it("is the same wherever it is made", () => {
    expect(rowsOf(3, 50)).toStrictEqual(rowsOf(3, 50));
    expect(rowsOf(3, 50)).not.toStrictEqual(rowsOf(4, 50));
  });

  it("has ids as nodes make them, each once, in both phases", () => {
    const rows = [0, 1, 2].flatMap((node) => [...rowsOf(node, 500, 0), ...rowsOf(node, 500, 1)]);
    expect(rows.every(({ id }) => /^sb_[0-9a-f]{16}$/.test(id))).toBe(true);
    // Of each node's rows one in a hundred differs between the phases.
    expect(new Set(rows.map(({ id }) => id)).size).toBe(3 * (500 + 5));
  });

  it("replaces one per cent and keeps the objects of all others", () => {
    const source = new FleetSource(SIZE);
    const before = [...source.all()].map(({ entry }) => entry);
    const generation = source.generation;
    source.churn();
    const after = [...source.all()].map(({ entry }) => entry);
    expect(source.generation).toBeGreaterThan(generation);
    expect(after.filter((entry, at) => entry !== before[at])).toHaveLength(10);
    expect(source.replaced).toBe(10);
    source.churn();
    expect([...source.all()].map(({ entry }) => entry)).toStrictEqual(before);
  });

  it.each([
    { nodes: 26, perNode: 100 },
    { nodes: 26, perNode: 2000 },
    { nodes: 200, perNode: 100 },
  ])("never replaces the sandbox that single reads ask for: $nodes x $perNode", (size) => {
    const source = new FleetSource(size);
    const last = source.last();
    source.churn();
    expect(source.last()).toBe(last);
  });

  it("confirms under the same generation, and publishes warm counts under a new one", () => {
    const source = new FleetSource(SIZE);
    const { generation } = source;
    const view = source.nodeInventory(nodeName(0));
    source.confirm();
    expect(source.generation).toBe(generation);
    expect(source.nodeInventory(nodeName(0))?.entries).toBe(view?.entries);
    const capacities = source.nodeCapacities();
    source.refill();
    expect(source.generation).toBeGreaterThan(generation);
    expect(source.nodeCapacities()).not.toBe(capacities);
    expect(source.nodeCapacities().map(({ node }) => node)).toStrictEqual(source.listNodes());
  });

  it("is named after its size", () => {
    expect(sizeName(SIZE)).toBe("5x200");
    expect(new Set(Array.from({ length: 300 }, (_node, index) => nodeName(index))).size).toBe(300);
  });
});
