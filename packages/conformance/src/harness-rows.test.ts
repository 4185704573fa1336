import { describe, expect, it } from "vitest";

import { runHarnessRows, SkipRow } from "./harness-rows.ts";
import { createResultCollector } from "./results.ts";

const passing = { id: "A", title: "passes", run: async () => undefined };

describe("rows of the harness", () => {
  it("end as passed, failed or skipped, and all of them run", async () => {
    const collector = createResultCollector();
    await runHarnessRows(
      [
        passing,
        { id: "B", title: "fails", run: () => Promise.reject(new Error("why")) },
        { id: "C", title: "cannot run", run: () => Promise.reject(new SkipRow("no bwrap: install bubblewrap")) },
        { id: "D", title: "hangs", run: () => new Promise<void>(() => undefined) },
      ],
      { suite: "s", client: "c", collector, limitMs: 20 },
    );
    expect(collector.results.map((result) => [result.row, result.status, result.detail])).toEqual([
      ["A", "pass", ""],
      ["B", "fail", "why"],
      ["C", "skip", "no bwrap: install bubblewrap"],
      ["D", "fail", "no end within 20 ms"],
    ]);
  });

  it("run alone when one is asked for", async () => {
    const collector = createResultCollector();
    const others = { id: "B", title: "other", run: () => Promise.reject(new Error("must not run")) };
    await runHarnessRows([others, passing], { suite: "s", client: "c", collector, onlyRow: "A" });
    expect(collector.closingLine()).toBe("1 passed, 0 failed");
  });
});
