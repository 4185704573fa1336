import { describe, expect, it } from "vitest";

import { CLIENT_ROWS, rowsFor } from "./catalogue.ts";
import { parseLine } from "./clients.ts";

describe("the lines of a client process", () => {
  it("are rows, and everything else is ignored", () => {
    expect(parseLine('{"row":"B1","status":"pass","detail":"","ms":12}')).toEqual({
      row: "B1",
      status: "pass",
      detail: "",
      ms: 12,
    });
    for (const noise of [
      "",
      "warning",
      "{",
      '{"row":"B1"}',
      '{"row":1,"status":"pass"}',
      '{"row":"B1","status":"ok"}',
    ]) {
      expect(parseLine(noise)).toBeUndefined();
    }
  });
});

describe("the catalogue", () => {
  it("names each row once", () => {
    const ids = CLIENT_ROWS.map((row) => row.id);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it("keeps rows away from clients and modes that cannot run them", () => {
    const ids = (client: "js-2.51" | "py-2.51", mode: "seed" | "secret"): string[] =>
      ["resume", "files"].flatMap((suite) => rowsFor(suite, client, mode).map((row) => row.id));
    expect(ids("js-2.51", "secret")).not.toContain("R1");
    expect(ids("py-2.51", "secret")).toContain("R1");
    expect(ids("js-2.51", "secret")).toContain("FL15");
    expect(ids("js-2.51", "seed")).not.toContain("FL15");
  });
});
