import { describe, expect, it } from "vitest";

import type { RowResult } from "./results.ts";
import { alignColumns, resultTable } from "./table.ts";

const row = (client: string, id: string, status: RowResult["status"]): RowResult => ({
  suite: "base",
  client,
  row: id,
  title: `title of ${id}`,
  status,
  detail: "",
  ms: 1,
});

describe("the result table", () => {
  it("has a line per row and a column per client, in the order they came", () => {
    const text = resultTable([
      row("js-2.51", "B1", "pass"),
      row("js-2.51", "B2", "fail"),
      row("py-2.51", "B1", "skip"),
      row("py-2.51", "B2", "pass"),
    ]);
    expect(text.split("\n")).toEqual([
      "row      js-2.51  py-2.51  what",
      "base B1  ok       skip     title of B1",
      "base B2  FAIL     ok       title of B2",
    ]);
  });

  it("leaves the cell of a client that did not run a row empty", () => {
    const text = resultTable([row("js-2.51", "B1", "pass"), row("py-2.51", "B2", "pass")]);
    expect(text).toContain("base B2           ok       title of B2");
  });

  it("pads columns to their widest cell and trims line ends", () => {
    expect(alignColumns([["a", ""], ["long", "x"], ["b"]])).toBe("a\nlong  x\nb");
  });
});
