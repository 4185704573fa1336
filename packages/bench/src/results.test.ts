import { describe, expect, it } from "vitest";
import type { Figure } from "./figures.ts";
import { isBusy, readResults, thisMachine, writeResults } from "./results.ts";

const FIGURES: readonly Figure[] = [
  { name: "a", fleet: "", value: 1, unit: "us" },
  { name: "b", fleet: "1x1", value: 2, unit: "x", bar: { limit: 3, on: "ratio", side: "at least" } },
];

describe("results", () => {
  it("come back from their file, with and without a machine", () => {
    for (const machine of [thisMachine(), undefined]) {
      expect(readResults(writeResults({ machine, figures: FIGURES }))).toStrictEqual({ machine, figures: FIGURES });
    }
  });

  it("are not read from a file of something else", () => {
    expect(() => readResults('{"name":"a"}\n')).toThrow("not a figure");
  });

  it("know a busy machine", () => {
    const machine = { ...thisMachine(), cores: 2 };
    expect(isBusy({ ...machine, load: 1 })).toBe(false);
    expect(isBusy({ ...machine, load: 1.1 })).toBe(true);
  });
});
