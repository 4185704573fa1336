import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { MeshInventory } from "./index.ts";
import { ALIAS_TICKS } from "./membership.ts";
import { FakeMesh, pool, row, type FakeNode } from "./testing/fake-mesh.ts";
import { start, ticks, addresses } from "./testing/mesh-fixture.ts";

describe("a history of any kind", () => {
  const NAMES = ["a:1", "b:1", "c:1", "d:1"];
  const address = fc.constantFrom(...NAMES);
  const rows = fc
    .uniqueArray(fc.tuple(fc.nat(6), fc.boolean()), { selector: ([id]) => id, maxLength: 6 })
    .map((list) => list.map(([id, hibernated]) => row(`sb_${id}`, `ns/s${id}`, { hibernated })));
  const change = fc.oneof(
    fc.record({ at: address, rows }),
    fc.record({
      at: address,
      pools: fc.array(
        fc.nat(3).map((warm) => pool("base", warm, 3)),
        { maxLength: 2 },
      ),
    }),
    fc.record({ at: address, mode: fc.constantFrom<FakeNode["mode"]>("up", { status: 500 }, { status: 401 }) }),
    fc.record({ at: address, indexStatus: fc.constantFrom(undefined, 503) }),
    fc.record({ at: address, advertise: fc.constantFrom("a:1", "z:1", undefined) }),
    fc.record({ at: address, peers: fc.subarray(NAMES) }),
  );

  const contents = (inventory: MeshInventory): unknown =>
    inventory.listNodes().map((node) => ({
      ...inventory.nodeCapacity(node),
      entries: inventory.nodeInventory(node)?.entries.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
    }));

  it("ends, once everybody answers, in what a fresh poller sees", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(change, { maxLength: 4 }), { maxLength: 8 }), async (polls) => {
        const mesh = new FakeMesh();
        for (const name of NAMES) {
          mesh.add(name, NAMES);
        }
        const stop = new AbortController();
        try {
          const inventory = await start(mesh, ["a:1"], { signal: stop.signal });
          for (const changes of polls) {
            for (const { at, ...more } of changes) {
              Object.assign(mesh.routes.get(at) ?? {}, more);
            }
            await inventory.tick();
          }
          for (const [name, node] of mesh.routes) {
            Object.assign(node, { mode: "up", indexStatus: undefined, advertise: name, peers: NAMES });
          }
          // An address that stood for another node for a while is not trusted with its own at once.
          await ticks(inventory, ALIAS_TICKS + 3);
          const fresh = await start(mesh, ["a:1"], { signal: stop.signal });
          expect(contents(inventory)).toEqual(contents(fresh));
          expect(addresses(inventory).toSorted()).toEqual(addresses(fresh).toSorted());
          // Nothing changes any more, so nothing is made anew.
          const { generation } = inventory;
          await inventory.tick();
          expect(inventory.generation).toBe(generation);
        } finally {
          stop.abort();
        }
      }),
      { numRuns: 100 },
    );
  });
});
