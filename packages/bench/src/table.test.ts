import { describe, expect, it } from "vitest";
import type { Figure } from "./figures.ts";
import { amount, markdownTable, textTable } from "./table.ts";

const FIGURES: readonly Figure[] = [
  {
    name: "a",
    fleet: "1x1",
    value: 1234.5,
    unit: "us",
    baseline: 617.25,
    against: "b",
    ratio: 2,
    bar: { limit: 1.5, on: "ratio", side: "at most" },
    published: "9 us",
  },
  { name: "rate", fleet: "", value: 3000, unit: "/s", bar: { limit: 2500, on: "value", side: "at least" } },
];

describe("an amount", () => {
  it.each([
    [0.07891, "us", "0.0789 µs"],
    [999, "us", "999 µs"],
    [1500, "us", "1.5 ms"],
    [2_500_000, "us", "2,500 ms"],
    [2048, "B", "2,050 B"],
    [222_208, "B", "217 KiB"],
    [2786.4, "/s", "2,790 /s"],
    [0, "count", "0"],
    [0.0000006, "x", "< 0.001 ×"],
    [0, "x", "0 ×"],
    [1.489, "x", "1.49 ×"],
  ] as const)("of %d %s reads %s", (value, unit, expected) => {
    expect(amount(value, unit)).toBe(expected);
  });
});

describe("a table", () => {
  it("lines its columns up for a terminal", () => {
    expect(textTable(FIGURES).split("\n")).toStrictEqual([
      "figure  fleet  value     baseline   ratio  bar         met  published",
      "a       1x1    1.23 ms   617 µs: b  2 ×    ≤ 1.5 ×     no   9 us",
      "rate           3,000 /s                    ≥ 2,500 /s  yes",
    ]);
  });

  it("shows what misses its bar on a page", () => {
    expect(markdownTable(FIGURES).split("\n")).toStrictEqual([
      "| figure | fleet | value    | baseline  | ratio | bar        | met    | published |",
      "| ------ | ----- | -------- | --------- | ----- | ---------- | ------ | --------- |",
      "| `a`    | 1x1   | 1.23 ms  | 617 µs: b | 2 ×   | ≤ 1.5 ×    | **no** | 9 us      |",
      "| `rate` |       | 3,000 /s |           |       | ≥ 2,500 /s | yes    |           |",
    ]);
  });
});
