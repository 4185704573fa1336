import { describe, expect, it } from "vitest";

import { CLIENTS } from "./client-facts.ts";
import { listedRows } from "./harness-catalogue.ts";
import { type KnownLimits, readKnownLimits } from "./known-limits.ts";
import type { RowResult } from "./results.ts";
import { mergeResults, outcomesOf, problemsOf, type ResultsFile, type RunOutcome } from "./results-file.ts";

const limits: KnownLimits = {
  product: [{ suite: "files", row: "FL1", failure: "why", reason: "because" }],
  oneUser: [],
  newestPython: {
    client: "PyPI e2b",
    version: "9.9.9",
    rows: [{ suite: "files", row: "FL2", reason: "it asks for more" }],
  },
};
const listed = [
  { suite: "files", id: "FL1", title: "one", columns: ["js-2.51 secret", "py-newest secret"] },
  { suite: "files", id: "FL2", title: "two", columns: ["js-2.51 secret", "py-newest secret"] },
  { suite: "mesh", id: "M1", title: "three", columns: ["harness"] },
];
const EMPTY: ResultsFile = { clients: {}, suites: {} };

const result = (client: string, suite: string, row: string, status: RowResult["status"], detail = ""): RowResult => ({
  suite,
  client,
  row,
  title: row,
  status,
  detail,
  ms: 1,
});

const run = (...results: readonly RowResult[]): RunOutcome => ({ results, versions: new Map(), limits });

const whole = run(
  result("js-2.51 secret", "files", "FL2", "pass"),
  result("js-2.51 secret", "files", "FL1", "limit", "why"),
  result("py-newest secret", "files", "FL1", "pass"),
  result("py-newest secret", "files", "FL2", "fail", "more"),
  result("harness", "mesh", "M1", "skip", "no mesh here"),
);
const versions = new Map(
  CLIENTS.map(({ id, version }) => [id as string, version === "newest" ? limits.newestPython.version : version]),
);

describe("the file of results", () => {
  it("keeps outcomes in the order of the catalogue, with the reasons of skips", () => {
    expect(mergeResults(EMPTY, whole, listed).suites).toEqual({
      files: {
        "js-2.51 secret": { ok: "FL2", limit: "FL1" },
        "py-newest secret": { ok: "FL1", limit: "FL2" },
      },
      mesh: { harness: { skipped: { M1: "no mesh here" } } },
    });
  });

  it("has no problem when every row has a result and every client the version it should have", () => {
    expect(problemsOf(mergeResults(EMPTY, { ...whole, versions }, listed), listed, limits)).toEqual([]);
  });

  it("is refreshed in part: what did not run stays", () => {
    const before = mergeResults(EMPTY, whole, listed);
    const after = mergeResults(before, run(result("harness", "mesh", "M1", "pass")), listed);
    expect(after.suites).toEqual({ ...before.suites, mesh: { harness: { ok: "M1" } } });
  });

  it("forgets rows and columns that are not listed any more", () => {
    const before = mergeResults(EMPTY, whole, listed);
    expect(mergeResults(before, run(), listed.slice(0, 1)).suites).toEqual({
      files: { "js-2.51 secret": { limit: "FL1" }, "py-newest secret": { ok: "FL1" } },
    });
  });

  it("names rows without a result, results without a row, failures, stray limits and other versions", () => {
    const file: ResultsFile = {
      clients: { ...Object.fromEntries(versions), "py-2.51": "2.50.0" },
      suites: {
        files: {
          "js-2.51 secret": { ok: "FL1 FL7", failed: { FL2: "boom" } },
          "py-newest secret": { limit: "FL1 FL2" },
        },
        mesh: { harness: { limit: "M1" } },
      },
    };
    expect(problemsOf(file, [...listed, { suite: "pty", id: "PT1", title: "", columns: ["harness"] }], limits)).toEqual(
      [
        "files FL2 failed with js-2.51 secret: boom",
        "mesh M1 is a limit of harness that known-limits.json does not list",
        "pty PT1 has no result of harness",
        "files FL7 has a result of js-2.51 secret, and no such row is listed",
        "the results are of py-2.51 2.50.0, the client is 2.51.0",
      ],
    );
  });

  it("tells the outcome of a row", () => {
    expect(outcomesOf({ ok: "A B", skipped: { C: "no" } }).get("C")).toEqual({ status: "skipped", detail: "no" });
    expect(outcomesOf(undefined).size).toBe(0);
  });
});

describe("the list of all rows", () => {
  it("has every row once, with a title and a column, and known limits name rows of it", async () => {
    const rows = listedRows();
    const keys = rows.map((row) => `${row.suite} ${row.id}`);
    expect(new Set(keys).size).toBe(keys.length);
    for (const row of rows) {
      expect(row.title, row.id).not.toBe("");
      expect(row.columns, row.id).not.toEqual([]);
    }
    const { product, oneUser, newestPython } = await readKnownLimits();
    for (const { suite, row } of [...product, ...oneUser, ...newestPython.rows]) {
      expect(keys).toContain(`${suite} ${row}`);
    }
  });
});
