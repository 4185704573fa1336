import { describe, expect, test } from "vitest";
import { UsageError } from "./command-line.ts";
import { meshFlags, meshOptions } from "./mesh-flags.ts";

const unset = Object.fromEntries(
  Object.entries(meshOptions).map(([flag, option]) => [flag, option.repeatable === true ? [] : option.default]),
);

describe("the flags about nodes", () => {
  test("have the documented defaults", () => {
    expect(meshFlags(unset)).toEqual({ seeds: [], token: "", tokenFile: "", caFile: "", pollIntervalMs: 10_000 });
  });

  test.each([
    [[], []],
    [["a:1"], ["a:1"]],
    [["b:2,a:1"], ["b:2", "a:1"]],
    [[" a:1 , b:2,, "], ["a:1", "b:2"]],
    [
      ["b:2", "a:1,https://c"],
      ["b:2", "a:1", "https://c"],
    ],
    [[",", " "], []],
  ])("seeds %j are %j", (given, seeds) => {
    expect(meshFlags({ ...unset, "sandboxd-seeds": given }).seeds).toEqual(seeds);
  });

  test.each([
    ["0", 0],
    ["1m30s", 90_000],
    ["200ms", 200],
    ["10ms", 10],
    ["24h", 86_400_000],
  ])("an interval of %s is %i ms", (text, ms) => {
    expect(meshFlags({ ...unset, "inventory-poll": text }).pollIntervalMs).toBe(ms);
  });

  test.each(["-1s", "10", "", "soon", "1ns", "9ms", "24h1s", "9999999h"])("an interval of %j is refused", (text) => {
    expect(() => meshFlags({ ...unset, "inventory-poll": text })).toThrow(UsageError);
  });
});
