import { describe, expect, it } from "vitest";

import { createResultCollector, type RowResult } from "./results.ts";

const row = (over: Partial<RowResult>): RowResult => ({
  suite: "base",
  client: "js-2.51",
  row: "B1",
  title: "create",
  status: "pass",
  detail: "",
  ms: 1,
  ...over,
});

describe("the result collector", () => {
  it("closes with passed and failed alone when nothing was skipped", () => {
    const collector = createResultCollector();
    collector.add(row({}));
    collector.add(row({ row: "B2", status: "fail", detail: "no" }));
    expect(collector.closingLine()).toBe("1 passed, 1 failed");
    expect(collector.failures().map((failure) => failure.row)).toEqual(["B2"]);
  });

  it("names skipped rows in the closing line only when there are any", () => {
    const collector = createResultCollector();
    collector.add(row({ status: "skip", detail: "no python3" }));
    expect(collector.closingLine()).toBe("0 passed, 0 failed, 1 skipped");
  });

  it("turns a skip into a failure where skips are not allowed", () => {
    const collector = createResultCollector({ skipFails: true });
    collector.add(row({ status: "skip", detail: "no python3" }));
    expect(collector.closingLine()).toBe("0 passed, 1 failed");
    expect(collector.failures()).toHaveLength(1);
  });

  it("shows the failures of an informational client without counting them", () => {
    const collector = createResultCollector({ informational: ["py-newest"], skipFails: true });
    collector.add(row({ client: "py-newest", status: "fail" }));
    collector.add(row({ client: "py-newest", status: "skip" }));
    collector.add(row({ client: "py-newest" }));
    expect(collector.totals()).toEqual({ passed: 1, failed: 0, skipped: 1, known: 1, limits: 0 });
    expect(collector.failures()).toEqual([]);
  });

  it("takes a listed failure for a limit, another failure and a pass of a listed row for failures", () => {
    const limits = [{ suite: "base", row: "B2", failure: "^SandboxError: 501", reason: "not served yet" }];
    const collector = createResultCollector({ limits });
    collector.add(row({ row: "B2", status: "fail", detail: "SandboxError: 501: not supported" }));
    expect(collector.closingLine()).toBe("0 passed, 0 failed");
    expect(collector.totals().limits).toBe(1);
    collector.add(row({ row: "B2", status: "fail", detail: "SandboxError: 500" }));
    collector.add(row({ row: "B2" }));
    collector.add(row({ suite: "other", row: "B2" }));
    expect(collector.closingLine()).toBe("1 passed, 2 failed");
    expect(collector.failures().at(-1)?.detail).toContain("take it off the list");
  });
});
