import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createStore } from "./store.ts";
import { ScriptedNodes } from "./testing/scripted-nodes.ts";
import { StaticInventorySource } from "./testing/static-inventory-source.ts";

const IMAGE = "img:1";
const POOLS = [{ template: IMAGE, net: "none", size: "small", warm: 1000, target: 1000 }];
const NAMESPACES = ["a", "ab", "default", ""];
const ADDRESSES = ["10.0.0.1:1", "10.0.0.2:1"];

function fleet() {
  const nodes = new ScriptedNodes();
  const source = new StaticInventorySource();
  const publish = (address: string): void => source.put(nodes.node(address).inventory({ pools: POOLS }));
  ADDRESSES.forEach(publish);
  return { nodes, source, publish, store: createStore(source, { clients: nodes }) };
}

const steps = fc.array(
  fc.oneof(
    fc.record({ do: fc.constant("claim" as const), namespace: fc.constantFrom("a", "ab", "default") }),
    fc.record({ do: fc.constantFrom("release" as const, "pause" as const, "lose" as const), at: fc.nat() }),
    fc.record({ do: fc.constant("foreign" as const), node: fc.nat(), name: fc.constantFrom("a/x", "ab/x", "bare") }),
    fc.record({ do: fc.constantFrom("publish" as const, "remove" as const), node: fc.nat() }),
    fc.record({ do: fc.constant("partition" as const), node: fc.nat(), on: fc.boolean() }),
    fc.constant({ do: "ask" as const }),
  ),
  { minLength: 1, maxLength: 40 },
);

describe("count", () => {
  it("is what a list of the namespace shows, whatever was written, polled, lost and asked before", async () => {
    await fc.assert(
      fc.asyncProperty(steps, async (script) => {
        const { nodes, source, publish, store } = fleet();
        const address = (at: number): string => ADDRESSES[at % ADDRESSES.length] as string;
        const pick = (at: number): { node: string; id: string } | undefined => {
          const held = ADDRESSES.flatMap((node) =>
            nodes.node(node).sandboxes.map(({ entry }) => ({ node, id: entry.id })),
          );
          return held[at % Math.max(1, held.length)];
        };
        for (const [index, step] of script.entries()) {
          if (step.do === "claim") {
            await store.claim(step.namespace, `n${index}`, { template: IMAGE }).catch(() => undefined);
          } else if (step.do === "release" || step.do === "pause" || step.do === "lose") {
            const target = pick(step.at);
            if (target === undefined) {
              continue;
            }
            if (step.do === "lose") {
              nodes.node(target.node).lose(target.id);
            } else {
              await store[step.do](target.node, target.id).catch(() => undefined);
            }
          } else if (step.do === "foreign") {
            const id = `sb_${index.toString(16).padStart(16, "f")}`;
            nodes.node(address(step.node)).hold({ archived: false, entry: { name: step.name, id, phase: "Running" } });
          } else if (step.do === "publish") {
            publish(address(step.node));
          } else if (step.do === "remove") {
            source.remove(address(step.node));
          } else if (step.do === "partition") {
            source.partition(address(step.node), step.on);
          } else {
            store.count("a");
          }
        }
        for (const namespace of NAMESPACES.filter((name) => name !== "")) {
          expect([namespace, store.count(namespace)]).toEqual([namespace, store.list({ namespace }).length]);
        }
      }),
      { numRuns: 300 },
    );
  });

  it("counts a claim and a release at once, and looks at no view that stayed", async () => {
    const { source, store } = fleet();
    expect(store.count("a")).toBe(0);
    const read: string[] = [];
    const original = source.nodeInventory.bind(source);
    const made = await store.claim("a", "one", { template: IMAGE });
    expect(store.count("a")).toBe(1);
    await store.claim("ab", "two", { template: IMAGE });
    await store.pause(made.node, made.id);
    expect([store.count("a"), store.count("ab")]).toEqual([1, 1]);
    await store.release(made.node, made.id);
    expect(store.count("a")).toBe(0);
    source.nodeInventory = (node) => {
      const view = original(node);
      read.push(node);
      return (
        view && { ...view, entries: new Proxy(view.entries, { get: () => expect.unreachable("a look at entries") }) }
      );
    };
    expect([store.count("a"), store.count("ab"), store.count("never")]).toEqual([0, 1, 0]);
  });
});
