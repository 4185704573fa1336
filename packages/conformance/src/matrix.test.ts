import { expect, it } from "vitest";

import type { KnownLimits } from "./known-limits.ts";
import { clientTable, type MatrixSource, rowTables, suiteTable } from "./matrix.ts";

const limits: KnownLimits = {
  product: [{ suite: "pty", row: "PT2", failure: "why", reason: "terminals have one size" }],
  oneUser: [],
  newestPython: { client: "PyPI e2b", version: "9.9.9", rows: [] },
};

const source: MatrixSource = {
  limits,
  listed: [
    { suite: "pty", id: "PT1", title: "a | b", columns: ["js-2.51 secret", "js-2.51 seed", "py-2.51 secret"] },
    { suite: "pty", id: "PT2", title: "size", columns: ["js-2.51 secret", "js-2.51 seed"] },
    { suite: "mesh", id: "M1", title: "two", columns: ["harness"] },
    { suite: "mesh", id: "M2", title: "more", columns: ["harness"] },
  ],
  results: {
    clients: { "js-2.51": "2.51.0", "py-newest": "9.9.9" },
    suites: {
      pty: {
        "js-2.51 secret": { ok: "PT1 PT2" },
        "js-2.51 seed": { ok: "PT1", limit: "PT2" },
        "py-2.51 secret": { ok: "PT1" },
      },
      mesh: { harness: { skipped: { M1: "there is one node" } } },
    },
  },
};

const lines = (text: string): string[] => text.split("\n");

it("a suite has a column for each client that runs some of it, and says why rows are limits or skipped", () => {
  expect(lines(rowTables(source))).toEqual([
    "### pty",
    "",
    "Terminals.",
    "",
    "| row | what | JS 2.51 | Python 2.51 |",
    "| --- | --- | --- | --- |",
    "| PT1 | a \\| b | ok | ok |",
    "| PT2 | size | known limit | – |",
    "",
    "- PT2, known limit: terminals have one size",
    "",
    "### mesh",
    "",
    "Two nodes, redirects, a node that goes.",
    "",
    "| row | what | without a client |",
    "| --- | --- | --- |",
    "| M1 | two | skipped |",
    "| M2 | more | not run |",
    "",
    "- M1, skipped: there is one node",
  ]);
});

it("the summary counts every suite for every client", () => {
  const [head = "", , pty = "", mesh = ""] = lines(suiteTable(source));
  const cells = (line: string): string[] => line.split(" | ");
  const at = (title: string): number => cells(head).indexOf(title);
  expect(cells(pty)[at("JS 2.51")]).toBe("1 ok, 1 known limit");
  expect(cells(pty)[at("Python 2.51")]).toBe("1 ok");
  expect(cells(pty)[at("JS 2.50")]).toBe("–");
  expect(mesh).toContain("1 skipped, 1 not run |");
});

it("clients are named with the version that ran", () => {
  const table = clientTable(source);
  expect(table).toContain("| JS 2.51 | npm `e2b` | 2.51.0 | `quick` and `full` |");
  expect(table).toContain("| Python newest | PyPI `e2b`, `Sandbox` | 9.9.9, the newest | `full` |");
  expect(table).toContain("| JS 2.50 | npm `e2b` | not run |");
});
