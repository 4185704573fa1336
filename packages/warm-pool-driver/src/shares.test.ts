import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { shares, spread } from "./shares.ts";

const sum = (parts: readonly number[]): number => parts.reduce((all, part) => all + part, 0);

describe("replicas", () => {
  test.each([
    [5, 2, [3, 2]],
    [1, 3, [1, 0, 0]],
    [0, 2, [0, 0]],
    [6, 3, [2, 2, 2]],
    [7, 0, []],
  ])("%i over %i nodes are %j", (replicas, nodes, parts) => {
    expect(spread(replicas, nodes)).toEqual(parts);
  });

  test("are all given out, evenly, the first nodes one more", () => {
    fc.assert(
      fc.property(fc.nat(2 ** 31), fc.integer({ min: 1, max: 500 }), (replicas, nodes) => {
        const parts = spread(replicas, nodes);
        expect(parts).toHaveLength(nodes);
        expect(sum(parts)).toBe(replicas);
        expect(parts).toEqual(parts.toSorted((a, b) => b - a));
        expect((parts[0] ?? 0) - (parts.at(-1) ?? 0)).toBeLessThanOrEqual(1);
      }),
    );
  });
});

describe("what is warm", () => {
  test.each([
    [8, [3, 5], [3, 5]],
    [4, [3, 5], [2, 2]],
    [0, [3, 5], [0, 0]],
    [10, [3, 5], [4, 6]],
    [7, [4], [7]],
    [3, [0, 0], [2, 1]],
    [3, [0, 2], [0, 3]],
    [2, [1, 1, 1], [1, 1, 0]],
    [5, [], []],
  ])("%i for those who want %j is %j", (amount, wants, parts) => {
    expect(shares(amount, wants)).toEqual(parts);
  });

  test("is all given out, to each by at most one from what is due", () => {
    const amount = fc.nat(2 ** 40);
    fc.assert(
      fc.property(amount, fc.array(amount, { minLength: 1, maxLength: 30 }), (warm, wants) => {
        const parts = shares(warm, wants);
        expect(sum(parts)).toBe(warm);
        const all = wants.reduce((total, want) => total + BigInt(want), 0n);
        parts.forEach((part, at) => {
          const [weight, total] = all === 0n ? [1n, BigInt(wants.length)] : [BigInt(wants[at] ?? 0), all];
          const due = BigInt(warm) * weight;
          expect(BigInt(part) * total > due - total && BigInt(part) * total < due + total).toBe(true);
        });
      }),
    );
  });

  test("is what everybody wants when there is just that much", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(1000), { minLength: 1 }), (wants) => {
        expect(shares(sum(wants), wants)).toEqual(wants);
      }),
    );
  });

  test("of a pool that wants more is not less", () => {
    fc.assert(
      fc.property(fc.nat(1000), fc.array(fc.nat(100), { minLength: 2, maxLength: 9 }), (warm, wants) => {
        const ordered = wants.toSorted((a, b) => b - a);
        const parts = shares(warm, ordered);
        expect(parts).toEqual(parts.toSorted((a, b) => b - a));
      }),
    );
  });
});
