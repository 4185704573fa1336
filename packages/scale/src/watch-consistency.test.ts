import * as fc from "fast-check";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { InventoryEntry, NodeInventory, Sandbox } from "./domain.ts";
import type { SandboxEvent, SandboxStore, WatchOptions } from "./ports.ts";
import { resourceVersionOf } from "./resource-version.ts";
import { createStore } from "./store.ts";
import { ScriptedNodes } from "./testing/index.ts";

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

const NODES = ["a", "b"] as const;
const POOL = { template: "rt", warm: 9, target: 9 };

/** A source that keeps the entry objects which did not change, as a mesh does. */
class KeepingSource {
  generation = 0;
  readonly #views = new Map<string, NodeInventory>();

  put(node: string, entries: readonly InventoryEntry[]): void {
    const view = { node, address: node, pools: [POOL], templates: [], entries, asOfMs: performance.now() };
    this.#views.set(node, view);
    this.generation += 1;
  }

  entries(node: string): readonly InventoryEntry[] {
    return this.#views.get(node)?.entries ?? [];
  }

  remove(node: string): void {
    this.#views.delete(node);
    this.generation += 1;
  }

  listNodes(): readonly string[] {
    return [...this.#views.keys()].sort();
  }

  nodeInventory(node: string): NodeInventory | undefined {
    return this.#views.get(node);
  }

  nodeCapacity(node: string): NodeInventory | undefined {
    return this.#views.get(node);
  }

  nodeCapacities(): readonly NodeInventory[] {
    return [...this.#views.values()];
  }
}

const SELECTIONS: readonly WatchOptions[] = [
  {},
  { namespace: "n" },
  { labelSelector: "sandbox.cocoonstack.io/phase=Running" },
  { fieldSelector: "status.nodeName=a" },
  { namespace: "m", fieldSelector: "metadata.name!=y", labelSelector: "sandbox.cocoonstack.io/node in (a,b)" },
];

/** What a client knows that applies one event after the other. */
class Mirror {
  readonly held = new Map<string, { readonly sandbox: Sandbox; readonly version: string }>();

  apply(event: SandboxEvent): void {
    if (event.type === "BOOKMARK") {
      return;
    }
    const { type, sandbox, version } = event;
    const name = `${sandbox.namespace}/${sandbox.name}`;
    const before = this.held.get(name);
    expect(before === undefined).toBe(type === "ADDED");
    expect(version).toBe(resourceVersionOf(sandbox));
    if (type === "DELETED") {
      expect(before?.sandbox.id).toBe(sandbox.id);
      this.held.delete(name);
      return;
    }
    if (type === "MODIFIED") {
      expect(version).not.toBe(before?.version);
      expect(sandbox.id === before?.sandbox.id || sandbox.id === "" || before?.sandbox.id === "").toBe(true);
    }
    this.held.set(name, { sandbox, version });
  }
}

/** Of each name the oldest selected claim, found by looking at everything. */
async function expected(store: SandboxStore, options: WatchOptions): Promise<ReadonlyMap<string, string>> {
  const ageOf = (sandbox: Sandbox): number => sandbox.claimedAt?.getTime() ?? 0;
  const shown = new Map<string, Sandbox>();
  for (const sandbox of await store.select(options)) {
    const name = `${sandbox.namespace}/${sandbox.name}`;
    const other = shown.get(name);
    if (other === undefined || ageOf(sandbox) < ageOf(other)) {
      shown.set(name, sandbox);
    }
  }
  return new Map([...shown].map(([name, sandbox]) => [name, resourceVersionOf(sandbox)]));
}

const versions = (mirror: Mirror): ReadonlyMap<string, string> =>
  new Map([...mirror.held].map(([name, { version }]) => [name, version]));

const name = fc.constantFrom("n/x", "n/x", "n/y", "m/x", "x", "default/x");
const node = fc.constantFrom(...NODES);
const made = fc
  .record({ name, id: fc.constantFrom("", "sb_1", "sb_2", "sb_3"), phase: fc.constantFrom("Running", "Hibernated") })
  .chain((entry) =>
    fc.constantFrom(undefined, 1000, 2000).map((claimed): InventoryEntry => ({
      ...entry,
      template: "rt",
      claimRef: entry.name,
      claimedAt: claimed === undefined ? undefined : new Date(claimed),
    })),
  );

const step = fc.oneof(
  fc.record({ does: fc.constant("add" as const), node, entry: made }),
  fc.record({ does: fc.constant("again" as const), node, at: fc.nat(5), entry: made }),
  fc.record({ does: fc.constant("drop" as const), node, at: fc.nat(5) }),
  fc.record({ does: fc.constant("turn" as const), node }),
  fc.record({ does: fc.constant("copy" as const), node }),
  fc.record({ does: fc.constant("lose" as const), node }),
  fc.record({ does: fc.constantFrom("claim" as const, "pause" as const, "resume" as const, "release" as const), name }),
  fc.record({ does: fc.constant("publish" as const), node }),
  fc.record({ does: fc.constant("tick" as const) }),
);

it("a watch tells of everything that its selection ever shows at a tick, in steps that fit together", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), fc.nat(10), async (steps, lag) => {
      const nodes = new ScriptedNodes();
      const source = new KeepingSource();
      NODES.forEach((key) => source.put(key, []));
      const store = createStore(source, { clients: nodes });
      const own: { readonly node: string; readonly id: string }[] = [];
      const caller = new AbortController();
      const readers = SELECTIONS.map((options) => ({ options, mirror: new Mirror(), failure: undefined as unknown }));
      const running = readers.map(async (reader) => {
        try {
          for await (const event of store.watch({ ...reader.options, signal: caller.signal })) {
            reader.mirror.apply(event);
          }
        } catch (error) {
          reader.failure = error;
        }
      });
      // One that reads nothing for a while.
      const lazy = store.watch({ signal: caller.signal })[Symbol.asyncIterator]();
      const late = new Mirror();
      let unread: Promise<IteratorResult<SandboxEvent>> | undefined = lazy.next();

      for (const [at, action] of steps.entries()) {
        const entries = "node" in action ? source.entries(action.node) : [];
        switch (action.does) {
          case "add":
            source.put(action.node, [...entries, action.entry]);
            break;
          case "again":
            source.put(
              action.node,
              entries.length === 0 ? [action.entry] : entries.with(action.at % entries.length, action.entry),
            );
            break;
          case "drop":
            source.put(action.node, entries.toSpliced(action.at, 1));
            break;
          case "turn":
            source.put(action.node, entries.toReversed());
            break;
          case "copy":
            source.put(
              action.node,
              entries.map((entry) => ({ ...entry })),
            );
            break;
          case "lose":
            source.remove(action.node);
            break;
          case "claim":
            if (source.listNodes().length > 0) {
              const [namespace, rest = "x"] = action.name.includes("/") ? action.name.split("/") : ["n"];
              own.push(await store.claim(namespace ?? "n", rest, { template: "rt" }));
            }
            break;
          case "pause":
          case "resume":
          case "release": {
            const target = own.at(-1);
            if (target !== undefined) {
              await store[action.does](target.node, target.id).catch(() => undefined);
            }
            break;
          }
          case "publish": {
            const listed = nodes.node(action.node).sandboxes.map((row) => row.entry);
            source.put(action.node, listed);
            break;
          }
          case "tick":
            await vi.advanceTimersByTimeAsync(1000);
            break;
        }
        if (at === lag && unread !== undefined) {
          const first = await Promise.race([unread, Promise.resolve(undefined)]);
          if (first?.done === false) {
            late.apply(first.value);
            unread = undefined;
          }
        }
      }
      await vi.advanceTimersByTimeAsync(1000);
      for (const { options, mirror, failure } of readers) {
        expect(failure).toBeUndefined();
        expect(versions(mirror)).toStrictEqual(await expected(store, options));
      }
      // The lazy one catches up.
      for (;;) {
        const next = await Promise.race([
          unread ?? lazy.next(),
          vi.advanceTimersByTimeAsync(1000).then(() => undefined),
        ]);
        unread = undefined;
        if (next === undefined || next.done === true) {
          break;
        }
        late.apply(next.value);
      }
      expect(versions(late)).toStrictEqual(await expected(store, {}));
      caller.abort();
      await Promise.all(running);
      expect(vi.getTimerCount()).toBe(0);
    }),
    { numRuns: 200 },
  );
});
