import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, describe, expect, it, vi } from "vitest";
import { askNodes } from "./ask-nodes.ts";

const NODES = Array.from({ length: 40 }, (_, index) => `node-${index}`);

/** Rejects when the signal fires, and never before. */
function silent(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_resolve, reject) => signal?.addEventListener("abort", () => reject(new Error("no answer"))));
}

afterEach(() => {
  vi.useRealTimers();
});

describe("askNodes", () => {
  it("asks every node once, 16 at a time", async () => {
    let active = 0;
    let most = 0;
    const seen: string[] = [];
    const { answers, failures } = await askNodes(NODES, async (node) => {
      active += 1;
      most = Math.max(most, active);
      await nextTurn();
      active -= 1;
      seen.push(node);
      return node.length;
    });
    expect(most).toBe(16);
    expect(seen.toSorted()).toStrictEqual(NODES.toSorted());
    expect(answers).toHaveLength(40);
    expect(failures).toStrictEqual([]);
  });

  it("keeps failures apart from answers", async () => {
    const error = new Error("broken");
    const asked = await askNodes(["a", "b", "c"], (node) =>
      node === "b" ? Promise.reject(error) : Promise.resolve(node),
    );
    expect(asked.answers.map(({ node }) => node)).toStrictEqual(["a", "c"]);
    expect(asked.failures).toStrictEqual([{ node: "b", error }]);
  });

  it("counts a node that keeps silent as failed, and waits no longer than its bound", async () => {
    vi.useFakeTimers();
    const caller = new AbortController();
    const ask = (node: string, signal: AbortSignal | undefined) =>
      node === "b" ? silent(signal) : Promise.resolve(node);
    const asking = askNodes(["a", "b"], ask, { signal: caller.signal });
    await vi.advanceTimersByTimeAsync(5000);
    expect((await asking).failures.map(({ node }) => node)).toStrictEqual(["b"]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("stops asking once an answer is enough, without counting the others as failed", async () => {
    const seen: string[] = [];
    const ask = (node: string, signal: AbortSignal | undefined) => {
      seen.push(node);
      return node === "node-3" ? Promise.resolve(true) : silent(signal);
    };
    const caller = new AbortController();
    const { answers, failures } = await askNodes(NODES, ask, { signal: caller.signal, enough: (found) => found });
    expect(answers).toStrictEqual([{ node: "node-3", value: true }]);
    expect(failures).toStrictEqual([]);
    expect(seen).toHaveLength(16);
  });

  it("ends with its caller", async () => {
    const caller = new AbortController();
    const asking = askNodes(NODES, (_node, signal) => silent(signal), { signal: caller.signal });
    caller.abort();
    await expect(asking).rejects.toMatchObject({ code: "aborted" });
    const ask = vi.fn(() => Promise.resolve(1));
    await expect(askNodes(NODES, ask, { signal: caller.signal })).rejects.toMatchObject({ code: "aborted" });
    expect(ask).not.toHaveBeenCalled();
  });

  it("hands no signal to writes", async () => {
    const signals = new Set<unknown>();
    await askNodes(["a", "b"], (_node, signal) => Promise.resolve(signals.add(signal)));
    expect([...signals]).toStrictEqual([undefined]);
  });

  it("resolves at once when there is nobody to ask", async () => {
    await expect(askNodes([], () => Promise.resolve(1))).resolves.toStrictEqual({ answers: [], failures: [] });
  });
});
