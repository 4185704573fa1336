import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import type { Figure } from "./figures.ts";
import { resultsSection, withResults } from "./page.ts";
import type { Machine } from "./results.ts";

const MACHINE: Machine = { node: "v24.0.0", platform: "linux x64", cores: 2, memoryGiB: 8, load: 0.1 };
const MISSED: Figure = { name: "a", fleet: "", value: 2, unit: "us", bar: { limit: 1, on: "value", side: "at most" } };
const PAGE = "before\n\n<!-- figures -->\n\nold\n\n<!-- end of figures -->\n\nafter\n";

describe("the figures on a page", () => {
  it("stand between their marks, whatever stood there", () => {
    const once = withResults(PAGE, { machine: MACHINE, figures: [MISSED] });
    expect(once).toMatch(/^before\n\n<!-- figures -->\n\nNode v24/);
    expect(once).toMatch(/\n\n<!-- end of figures -->\n\nafter\n$/);
    expect(once).not.toContain("old");
    expect(withResults(once, { machine: MACHINE, figures: [MISSED] })).toBe(once);
  });

  it("say how many bars are missed, and when the machine was busy", () => {
    const quiet = resultsSection({
      machine: MACHINE,
      figures: [MISSED, { ...MISSED, value: 1 }, { ...MISSED, bar: undefined }],
    });
    expect(quiet).toContain("2 of 3 figures have a bar; 1 of them miss it.");
    expect(quiet).not.toContain("busy");
    expect(resultsSection({ machine: { ...MACHINE, load: 1.1 }, figures: [] })).toContain("busy");
  });

  it.each(["", "<!-- figures -->", "<!-- end of figures --> <!-- figures -->"])("need their marks: %j", (page) => {
    expect(() => withResults(page, { machine: undefined, figures: [] })).toThrow("no place for figures");
  });

  it("have a place in the documentation", async () => {
    const page = await readFile(new URL("../../../docs/performance.md", import.meta.url), "utf8");
    expect(withResults(page, { machine: undefined, figures: [MISSED] })).toContain("| `a` ");
  });
});
