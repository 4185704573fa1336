import { UsageError } from "@org/command-line";
import { expect, test } from "vitest";
import { parsePools, poolsForAliases } from "./pools.ts";

test.each([
  ["e2b-rt:24.04=2", { template: "e2b-rt:24.04", net: "none", size: "small", warm: 2 }],
  ["img,egress=1", { template: "img", net: "egress", size: "small", warm: 1 }],
  ["img,none,medium=0", { template: "img", net: "none", size: "medium", warm: 0 }],
  [
    "registry.example/a/b:1,egress,xlarge=30",
    { template: "registry.example/a/b:1", net: "egress", size: "xlarge", warm: 30 },
  ],
  ["img,large=1", { template: "img", net: "none", size: "large", warm: 1 }],
])("%s is a pool", (text, pool) => {
  expect(parsePools([text])).toEqual([pool]);
});

test.each([
  "",
  "img",
  "img=",
  "img=x",
  "img=-1",
  "=1",
  "img,=1",
  "img,wifi=1",
  "img,none,huge=1",
  "img,medium,none=1",
  "img=99999",
  "a b=1",
])("%j is no pool", (text) => {
  expect(() => parsePools([text])).toThrow(UsageError);
});

test("a pool that is named twice is refused, whatever its spelling", () => {
  expect(() => parsePools(["img=1", "img,none,small=2"])).toThrow(/twice/);
});

test("each image and size with an alias gets pools once", () => {
  const aliases = [
    { image: "a", size: "small" },
    { image: "a", size: "small" },
    { image: "a", size: "medium" },
  ];
  expect(poolsForAliases(aliases, 3, 1)).toEqual([
    { template: "a", net: "none", size: "small", warm: 3 },
    { template: "a", net: "egress", size: "small", warm: 1 },
    { template: "a", net: "none", size: "medium", warm: 1 },
  ]);
});

test("a count of zero makes no pool", () => {
  expect(poolsForAliases([{ image: "a", size: "small" }], 0, 0)).toEqual([]);
});
