import { describe, expect, it } from "vitest";
import { readArgs, USAGE } from "./args.ts";

describe("the command line", () => {
  it("measures everything when it is empty", () => {
    expect(readArgs([])).toStrictEqual({
      only: undefined,
      json: undefined,
      from: undefined,
      quick: false,
      strict: false,
      writeDocs: false,
      list: false,
      help: false,
    });
  });

  it("takes every option that the usage names, also behind a package manager's --", () => {
    expect(readArgs(["--", "--only", "store", "--json=f", "--quick", "--strict"])).toMatchObject({
      only: "store",
      json: "f",
      quick: true,
      strict: true,
    });
    expect(readArgs(["--from", "f", "--write-docs"])).toMatchObject({ from: "f", writeDocs: true });
    for (const [option] of USAGE.matchAll(/--[a-z-]+/g)) {
      const args = /--(?:only|json|from)/.test(option) ? [option, "x"] : [option];
      expect(() => readArgs(args)).not.toThrow();
    }
  });

  it.each([
    [["--fast"], "--fast"],
    [["--only"], "--only"],
    [["store"], "store"],
    [["--from", "f", "--quick"], "--from"],
    [["--from", "f", "--only", "store"], "--from"],
    [["--write-docs", "--quick"], "--write-docs"],
    [["--write-docs", "--only", "store"], "--write-docs"],
  ])("refuses %j", (argv, named) => {
    expect(() => readArgs(argv)).toThrow(named);
  });
});
