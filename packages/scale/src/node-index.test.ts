import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { claimKey, nameKey, NodeIndex } from "./node-index.ts";

describe("the node index", () => {
  it("answers with the node last remembered", () => {
    const index = new NodeIndex();
    index.remember("k", "a");
    index.remember("k", "b");
    expect(index.lookup("k")).toBe("b");
    expect(index.lookup("other")).toBeUndefined();
  });

  it("ignores an empty key and an empty node", () => {
    const index = new NodeIndex();
    index.remember("", "a");
    index.remember("k", "");
    expect(index.size).toBe(0);
  });

  it("swaps generations when the younger is full, also for a key it holds", () => {
    const index = new NodeIndex(2);
    index.remember("a", "1");
    index.remember("b", "1");
    index.remember("a", "2");
    expect(index.size).toBe(3);
    expect(index.lookup("a")).toBe("2");
    expect(index.lookup("b")).toBe("1");
  });

  it("carries over what is looked up and forgets what is not", () => {
    const index = new NodeIndex(2);
    index.remember("kept", "1");
    index.remember("lost", "1");
    index.remember("c", "1");
    expect(index.lookup("kept")).toBe("1");
    index.remember("d", "1");
    expect(index.lookup("kept")).toBe("1");
    expect(index.lookup("lost")).toBeUndefined();
  });

  it("holds at most two generations and the latest keys of one", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 50 }), fc.array(fc.nat(200), { maxLength: 400 }), (max, keys) => {
        const index = new NodeIndex(max);
        for (const key of keys) {
          index.remember(String(key), `n${key}`);
          expect(index.size).toBeLessThanOrEqual(2 * max);
        }
        for (const key of keys.slice(-max)) {
          expect(index.lookup(String(key))).toBe(`n${key}`);
        }
      }),
    );
  });

  it("keeps names, claims and every namespace apart", () => {
    expect(new Set([nameKey("n", "x"), claimKey("n", "x"), claimKey("", "x")]).size).toBe(3);
    expect(nameKey("", "sb_1")).not.toBe(claimKey("", "sb_1"));
  });

  it.each([0, -1, 1.5, Number.NaN])("refuses a generation of %d keys", (max) => {
    expect(() => new NodeIndex(max)).toThrow(TypeError);
  });
});
