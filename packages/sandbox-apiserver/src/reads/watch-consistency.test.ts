import type { InventoryEntry } from "@org/scale";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { entry, readsOver } from "../testing/reads-fixture.ts";
import type { Line, ListBody, ReadsFixture, Watcher } from "../testing/reads-fixture.ts";

/** What may be listed at a node: few names and ids, so that sandboxes share names, change, move and come back. */
const row: fc.Arbitrary<InventoryEntry> = fc
  .record({
    id: fc.constantFrom("sb_1", "sb_2", "sb_3", "sb_4", "sb_5"),
    name: fc.constantFrom("m/x", "n/x", "n/y", "n/z"),
    phase: fc.constantFrom("Running", "Hibernated"),
  })
  .map(({ id, name, phase }) => entry(id, name, { phase }));

const rows = fc.uniqueArray(row, { maxLength: 5, selector: ({ id, name }) => `${id} ${name}` });
const step = fc.oneof(
  fc.record({ node: fc.constantFrom("a", "b"), entries: rows }),
  fc.record({ node: fc.constantFrom("a", "b"), partitioned: fc.boolean() }),
);

const QUERIES = [
  {},
  { namespace: "n" },
  { query: "labelSelector=sandbox.cocoonstack.io/phase%3DRunning" },
  { query: "fieldSelector=status.nodeName%3Da", namespace: "n" },
  { query: "fieldSelector=metadata.name%3Dx" },
] as const;

const keyOf = ({ metadata }: Line["object"]): string => `${metadata.uid} ${metadata.namespace}/${metadata.name}`;
const nameOf = ({ metadata }: Line["object"]): string => `${metadata.namespace}/${metadata.name}`;

/** Two clients that apply events: one knows sandboxes by claim, as lists show them, the other by name. */
class Follower {
  readonly byClaim = new Map<string, string>();
  readonly byName = new Map<string, string>();
  readonly watcher: Watcher;
  #read: Promise<Line | undefined> | undefined;

  constructor(list: ListBody, watcher: Watcher) {
    for (const item of list.items) {
      this.#put(item);
    }
    this.watcher = watcher;
  }

  /** Applies what has been sent until nothing comes in a few turns. */
  async settle(): Promise<void> {
    for (let quiet = 0; quiet < 4; quiet += 1) {
      this.#read ??= this.watcher.next();
      const line = await Promise.race([
        this.#read,
        new Promise<"quiet">((done) => void setImmediate(() => done("quiet"))),
      ]);
      if (line === "quiet") {
        continue;
      }
      quiet = 0;
      this.#read = undefined;
      if (line?.type === "DELETED") {
        this.byClaim.delete(keyOf(line.object));
        this.byName.delete(nameOf(line.object));
      } else if (line !== undefined) {
        this.#put(line.object);
      }
    }
  }

  #put(object: Line["object"]): void {
    this.byClaim.set(keyOf(object), object.metadata.resourceVersion);
    this.byName.set(nameOf(object), `${keyOf(object)} ${object.metadata.resourceVersion}`);
  }
}

const NOTHING: ListBody = { kind: "SandboxList", metadata: { resourceVersion: "" }, items: [] };

it("a client that applies the events of a watch, begun anywhere, has what the list has", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 6 }), fc.constantFrom(...QUERIES), async (steps, asked) => {
      const fixture: ReadsFixture = readsOver({ a: [], b: [] });
      const { source, list, watch, reads } = fixture;
      const { namespace, query = "" } = { namespace: undefined, query: undefined, ...asked };
      const followers: Follower[] = [];
      const starts: ListBody[] = [];
      const follow = async (from: ListBody, version: string): Promise<void> => {
        const watcher = await watch(`${query}&resourceVersion=${version}`, { namespace });
        followers.push(new Follower(from, watcher));
      };
      for (const one of steps) {
        const before = await list(query, { namespace });
        starts.push(before);
        await follow(before, before.metadata.resourceVersion);
        await follow(NOTHING, "0");
        if ("entries" in one) {
          source.put({ node: one.node, entries: one.entries });
        } else {
          source.partition(one.node, one.partitioned);
        }
      }
      // Late ones catch up from where they listed.
      for (const start of starts) {
        await follow(start, start.metadata.resourceVersion);
      }
      const { items } = await list(query, { namespace });
      const listed = new Map(items.map((item) => [keyOf(item), item.metadata.resourceVersion]));
      const names = new Set(items.map(nameOf));
      for (const follower of followers) {
        await follower.settle();
        expect(follower.byClaim).toStrictEqual(listed);
        expect(new Set(follower.byName.keys())).toStrictEqual(names);
        for (const known of follower.byName.values()) {
          const at = known.lastIndexOf(" ");
          expect(listed.get(known.slice(0, at))).toBe(known.slice(at + 1));
        }
      }
      reads.close();
    }),
    { numRuns: 25 },
  );
});
