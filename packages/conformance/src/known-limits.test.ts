import { describe, expect, it } from "vitest";

import { compareWithKnownLimits, knownLimitsTables, limitsFor, readKnownLimits } from "./known-limits.ts";
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

  it("is shown as tables, or as one line each when they are empty", () => {
    const product = [{ suite: "surface", row: "S3", failure: "501", reason: "snapshots are not served" }];
    const oneUser = [{ suite: "files", row: "FL14", failure: "user", reason: "one id plays both users" }];
    expect(knownLimitsTables({ product, oneUser, newestPython: limits })).toBe(
      [
        "| row | suite | why |",
        "|---|---|---|",
        "| S3 | surface | snapshots are not served |",
        "",
        "With development nodes that an ordinary user runs, these rows fail as well:",
        "",
        "| row | suite | why |",
        "|---|---|---|",
        "| FL14 | files | one id plays both users |",
        "",
        "PyPI e2b 9.9.9 fails these rows as well:",
        "",
        "| row | suite | why |",
        "|---|---|---|",
        "| S4 | surface | fork waits for more than a copy |",
        "",
      ].join("\n"),
    );
    expect(knownLimitsTables({ product: [], oneUser: [], newestPython: { ...limits, rows: [] } })).toBe(
      "Every client passes every row.\n\nPyPI e2b 9.9.9 fails no other row.\n",
    );
  });

  it("holds rows that want two users in a guest only against nodes that root runs", async () => {
    const known = await readKnownLimits();
    const rows = (userId: number | undefined) => limitsFor(known, userId).map((limit) => limit.row);
    expect(rows(0)).not.toContain("CM6");
    expect(rows(1000)).toContain("CM6");
    expect(rows(undefined)).toContain("CM6");
  });

  it("can be read, and its patterns are regular expressions", async () => {
    const { product, oneUser, newestPython } = await readKnownLimits();
    for (const limit of [...product, ...oneUser]) {
      expect(() => new RegExp(limit.failure)).not.toThrow();
    }
    expect(newestPython.version).toMatch(/^\d+\.\d+\.\d+$/);
  });
});
