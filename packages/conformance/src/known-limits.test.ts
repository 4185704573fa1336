import { describe, expect, it } from "vitest";

import { compareWithKnownLimits, knownLimitsTable } from "./known-limits.ts";
import type { RowResult } from "./results.ts";

const limits = {
  client: "PyPI e2b",
  version: "9.9.9",
  rows: [{ suite: "surface", row: "S4", reason: "fork waits for more than a copy" }],
};

const result = (row: string, status: RowResult["status"]): RowResult => ({
  suite: "surface",
  client: "py-newest secret",
  row,
  title: row,
  status,
  detail: status === "fail" ? "why" : "",
  ms: 1,
});

describe("the list of known limits", () => {
  it("agrees with a run that fails the listed rows and no others", () => {
    expect(compareWithKnownLimits(limits, [result("S4", "fail"), result("S5", "pass")])).toEqual([]);
  });

  it("names failures that are not listed and listed rows that pass", () => {
    expect(compareWithKnownLimits(limits, [result("S4", "pass"), result("S5", "fail")])).toEqual([
      "surface S5 fails but is not in the list: why",
      "surface S4 is in the list but passes",
    ]);
  });

  it("says nothing of listed rows that did not run", () => {
    expect(compareWithKnownLimits(limits, [])).toEqual([]);
  });

  it("is shown as a table, or as one line when it is empty", () => {
    expect(knownLimitsTable(limits)).toContain("| S4 | surface | fork waits for more than a copy |");
    expect(knownLimitsTable({ ...limits, rows: [] })).toBe("PyPI e2b 9.9.9: every row passes.\n");
  });
});
