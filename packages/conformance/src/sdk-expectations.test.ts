import { readFileSync } from "node:fs";
import { join } from "node:path";

import { expect, it } from "vitest";

import { listedRows } from "./harness-catalogue.ts";

const README = readFileSync(join(import.meta.dirname, "..", "README.md"), "utf8");

/** The ids in a cell, ranges written out. */
function idsIn(cell: string): string[] {
  return cell.split(", ").flatMap((part) => {
    const [, prefix = "", first = "", last = first] = /^([A-Z]+)(\d+)(?:-[A-Z]+(\d+))?$/.exec(part) ?? [];
    const count = Number(last) - Number(first) + 1;
    return Array.from({ length: count }, (_unused, index) => `${prefix}${Number(first) + index}`);
  });
}

it("every row that the README names for what the SDK's tests rely on is there", () => {
  const table = README.slice(README.indexOf("| tests of the SDK"), README.indexOf("## What takes as long"));
  const lines = table.trim().split("\n").slice(2);
  expect(lines.length).toBeGreaterThan(10);
  const known = new Set(listedRows().map(({ id }) => id));
  for (const line of lines) {
    const [, what = "", rows = ""] = line.split("|").map((cell) => cell.trim());
    const ids = idsIn(rows);
    expect(ids, what).not.toEqual([]);
    expect(
      ids.filter((id) => !known.has(id)),
      what,
    ).toEqual([]);
  }
});
