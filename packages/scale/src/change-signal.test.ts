import { describe, expect, it, vi } from "vitest";
import type { InventorySource } from "./ports.ts";
import { createStore } from "./store.ts";
import { ScriptedNodes } from "./testing/scripted-nodes.ts";
import { StaticInventorySource } from "./testing/static-inventory-source.ts";

const POOL = { template: "rt", net: "none", size: "small", warm: 5, target: 5 } as const;

const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

/** The same views, without word of their changes. */
function silent(source: StaticInventorySource): InventorySource {
  return {
    get generation() {
      return source.generation;
    },
    listNodes: () => source.listNodes(),
    nodeInventory: (node) => source.nodeInventory(node),
    nodeCapacity: (node) => source.nodeCapacity(node),
    nodeCapacities: () => source.nodeCapacities(),
  };
}

describe("onChange", () => {
  it("tells once of snapshots that come together, and of nothing after it was left", async () => {
    const source = new StaticInventorySource([{ node: "a" }]);
    const store = createStore(source);
    let told = 0;
    const leave = store.onChange(() => void (told += 1));
    source.put({ node: "a" });
    source.put({ node: "b" });
    await turn();
    await turn();
    expect(told).toBe(1);
    leave();
    leave();
    source.put({ node: "a" });
    await turn();
    expect(told).toBe(1);
  });

  it("tells of our own writes", async () => {
    const nodes = new ScriptedNodes();
    const store = createStore(new StaticInventorySource([{ node: "a", pools: [POOL] }]), { clients: nodes });
    const listed: string[][] = [];
    const leave = store.onChange(() => void listed.push(store.list().map(({ name }) => name)));
    const { node, id } = await store.claim("n", "x", { template: "rt" });
    await turn();
    expect(listed).toStrictEqual([["x"]]);
    await store.release(node, id);
    await turn();
    expect(listed).toStrictEqual([["x"], []]);
    leave();
  });

  it("looks by itself at a source that does not tell", () => {
    vi.useFakeTimers();
    try {
      const source = new StaticInventorySource([{ node: "a" }]);
      const store = createStore(silent(source), { watchPollMs: 50 });
      let told = 0;
      const leave = store.onChange(() => void (told += 1));
      vi.advanceTimersByTime(200);
      expect(told).toBe(0);
      source.put({ node: "a" });
      vi.advanceTimersByTime(50);
      expect(told).toBe(1);
      leave();
      expect(vi.getTimerCount()).toBe(0);
    } finally {
      vi.useRealTimers();
    }
  });

  it("goes on when a listener throws, and tells every listener, also one that is given twice", async () => {
    const source = new StaticInventorySource([{ node: "a" }]);
    const errors: string[] = [];
    const logger = {
      debug() {},
      info() {},
      warn() {},
      error: (_fields: object, message: string) => void errors.push(message),
    };
    const store = createStore(source, { logger });
    let told = 0;
    const count = (): void => void (told += 1);
    const leave = [
      store.onChange(() => {
        throw new Error("no");
      }),
      store.onChange(count),
      store.onChange(count),
    ];
    source.put({ node: "b" });
    await turn();
    expect(told).toBe(2);
    expect(errors).toStrictEqual(["a listener for changes failed"]);
    leave.forEach((each) => each());
  });
});
