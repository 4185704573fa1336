import { describe, expect, it } from "vitest";

import { exitedWith, killedBy } from "./exit-status.ts";

describe("the end of a command", () => {
  it.each([
    ["SIGKILL", "signal: killed"],
    [9, "signal: killed"],
    ["SIGTERM", "signal: terminated"],
    [15, "signal: terminated"],
    ["SIGSEGV", "signal: segmentation fault"],
    ["SIGPIPE", "signal: broken pipe"],
    ["SIGRTMIN", "signal: SIGRTMIN"],
    [40, "signal: 40"],
  ])("by signal %s reads `%s`", (signal, status) => {
    expect(killedBy(signal)).toEqual({ exitCode: -1, exited: false, status, error: status });
  });

  it("carries an error text for every code but 0", () => {
    expect(exitedWith(0)).toEqual({ exitCode: 0, exited: true, status: "exit status 0" });
    for (const code of [1, 126, 255]) expect(exitedWith(code).error).toBe(`exit status ${code}`);
  });
});
