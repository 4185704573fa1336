import { describe, expect, it } from "vitest";
import { median, quantile, sum } from "./statistics.ts";

describe("statistics", () => {
  it.each([
    [[3, 1, 2], 0.5, 2],
    [[4, 1, 2, 3], 0.5, 2.5],
    [[10, 20], 0.25, 12.5],
    [[7], 0.99, 7],
    [[5, 1, 9], 0, 1],
    [[5, 1, 9], 1, 9],
  ])("of %j the quantile %d is %d", (values, q, expected) => {
    expect(quantile(values, q)).toBe(expected);
  });

  it("have no middle without values, and leave the values as they were", () => {
    const values = [2, 1];
    expect(median([])).toBeNaN();
    expect(median(values)).toBe(1.5);
    expect(values).toStrictEqual([2, 1]);
    expect(sum(new Set([1, 2, 3]))).toBe(6);
  });
});
