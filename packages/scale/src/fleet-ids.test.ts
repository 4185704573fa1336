import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { InventoryEntry } from "./domain.ts";
import { FleetIds } from "./fleet-ids.ts";
import { StaticInventorySource } from "./testing/index.ts";
import { isCanonicalId } from "./view-index.ts";

function entry(id: string, namespace = "ns"): InventoryEntry {
  return { name: `${namespace}/${id}`, id, phase: "Running" };
}

describe("the ids of a fleet", () => {
  it("are where a look at every node finds them, after any history", async () => {
    const NODES = ["a", "b", "c"];
    const ids = fc.constantFrom(
      "",
      "x",
      "sb_y",
      ...Array.from({ length: 6 }, (_, at) => `sb_${String(at).repeat(16)}`),
    );
    const change = fc.record({
      node: fc.constantFrom(...NODES),
      how: fc.constantFrom("put", "put", "put", "remove", "partition"),
      ids: fc.uniqueArray(ids, { maxLength: 6 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(change, { maxLength: 4 }), { maxLength: 8 }), async (polls) => {
        const source = new StaticInventorySource();
        const fleet = new FleetIds(source);
        for (const changes of polls) {
          for (const { node, how, ids: listed } of changes) {
            if (how === "put") {
              source.put({ node, entries: listed.map((id) => entry(id)) });
            } else if (how === "remove") {
              source.remove(node);
            } else {
              source.partition(node);
            }
          }
          await fleet.refresh();
          const all = source
            .listNodes()
            .flatMap((node) => (source.nodeInventory(node)?.entries ?? []).map((one) => ({ node, entry: one })));
          for (const id of new Set(all.map((place) => place.entry.id))) {
            const expected = id === "" ? [] : all.filter((place) => place.entry.id === id);
            const byNode = (a: { node: string }, b: { node: string }): number => (a.node < b.node ? -1 : 1);
            expect(fleet.at(id).toSorted(byNode)).toEqual(expected.toSorted(byNode));
          }
          expect(fleet.at("sb_other")).toEqual([]);
          const unusual = all.filter((place) => place.entry.id !== "" && !isCanonicalId(place.entry.id));
          expect(new Set(fleet.unusualNodes())).toEqual(new Set(unusual.map((place) => place.node)));
        }
      }),
      { numRuns: 200 },
    );
  });

  it("are read anew of nodes that changed alone", async () => {
    const source = new StaticInventorySource([
      { node: "a", entries: [entry("sb_1")] },
      { node: "b", entries: [entry("sb_2")] },
    ]);
    const fleet = new FleetIds(source);
    await fleet.refresh();
    const [before] = fleet.at("sb_1");
    source.put({ node: "b", entries: [entry("sb_3")] });
    const stale = source.nodeInventory("b");
    expect(stale !== undefined && fleet.knows(stale)).toBe(false);
    await Promise.all([fleet.refresh(), fleet.refresh()]);
    expect(fleet.at("sb_1")[0]).toBe(before);
    expect(fleet.at("sb_2")).toEqual([]);
    expect(fleet.at("sb_3")).toMatchObject([{ node: "b" }]);
    expect(stale !== undefined && fleet.knows(stale)).toBe(true);
  });

  it("that one node lists over and over cost no more than others, and leave other nodes' alone", async () => {
    const [twice, other] = ["sb_0000000000000001", "sb_0000000000000002"];
    const many = Array.from({ length: 20_000 }, () => entry(twice));
    const source = new StaticInventorySource([
      { node: "a", entries: [entry(twice)] },
      { node: "b", entries: [...many, entry(other)] },
    ]);
    const fleet = new FleetIds(source);
    await fleet.refresh();
    expect(fleet.at(twice).map(({ node }) => node)).toEqual(["a", "b"]);
    source.put({ node: "b", entries: [entry(other)] });
    await fleet.refresh();
    expect(fleet.at(twice).map(({ node }) => node)).toEqual(["a"]);
    expect(fleet.at(other).map(({ node }) => node)).toEqual(["b"]);
  });

  it("of a large fleet are taken in a little at a time", async () => {
    const entries = Array.from({ length: 2000 }, (_, at) => entry(`sb_${at}`));
    const source = new StaticInventorySource(Array.from({ length: 30 }, (_, at) => ({ node: `n${at}`, entries })));
    const fleet = new FleetIds(source);
    let turns = 0;
    let over = false;
    const count = (): void => {
      turns += 1;
      if (!over) {
        setImmediate(count);
      }
    };
    setImmediate(count);
    await fleet.refresh();
    over = true;
    expect(turns).toBeGreaterThan(1);
    expect(fleet.at("sb_7")).toHaveLength(30);
  });
});
