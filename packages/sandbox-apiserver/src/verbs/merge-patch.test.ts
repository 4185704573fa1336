import { isDeepStrictEqual } from "node:util";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { changedFields, mergePatch } from "./merge-patch.ts";

describe("a merge patch", () => {
  // The examples of RFC 7396, appendix A.
  test.each<[unknown, unknown, unknown]>([
    [{ a: "b" }, { a: "c" }, { a: "c" }],
    [{ a: "b" }, { b: "c" }, { a: "b", b: "c" }],
    [{ a: "b" }, { a: null }, {}],
    [{ a: "b", b: "c" }, { a: null }, { b: "c" }],
    [{ a: ["b"] }, { a: "c" }, { a: "c" }],
    [{ a: "c" }, { a: ["b"] }, { a: ["b"] }],
    [{ a: { b: "c" } }, { a: { b: "d", c: null } }, { a: { b: "d" } }],
    [{ a: [{ b: "c" }] }, { a: [1] }, { a: [1] }],
    [
      ["a", "b"],
      ["c", "d"],
      ["c", "d"],
    ],
    [{ a: "b" }, ["c"], ["c"]],
    [{ a: "foo" }, null, null],
    [{ a: "foo" }, "bar", "bar"],
    [{ e: null }, { a: 1 }, { e: null, a: 1 }],
    [[1, 2], { a: "b", c: null }, { a: "b" }],
    [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
  ])("of %j by %j", (target, patch, expected) => {
    expect(mergePatch(target, patch)).toEqual(expected);
  });

  const json = fc.jsonValue({ maxDepth: 4 });

  test("applied twice is applied once", () => {
    fc.assert(
      fc.property(json, json, (target, patch) => {
        const once = mergePatch(target, patch);
        expect(mergePatch(once, patch)).toEqual(once);
      }),
    );
  });

  test("does not change what it is applied to", () => {
    fc.assert(
      fc.property(json, json, (target, patch) => {
        const before = structuredClone(target);
        mergePatch(target, patch);
        expect(target).toEqual(before);
      }),
    );
  });

  test("does not reach prototypes", () => {
    const merged = mergePatch({}, JSON.parse('{"__proto__":{"polluted":1}}'));
    expect(Object.getPrototypeOf(merged)).toBe(Object.prototype);
    expect({}).not.toHaveProperty("polluted");
    expect(changedFields({}, merged)).toEqual(["__proto__"]);
  });
});

describe("changed fields", () => {
  test.each<[unknown, unknown, readonly string[]]>([
    [{ a: 1 }, { a: 1 }, []],
    [{ a: { b: 1 } }, { a: { b: 2 } }, ["a.b"]],
    [{ a: 1 }, {}, ["a"]],
    [{}, { a: { b: 1 } }, ["a"]],
    [{ a: [1, { b: 2 }] }, { a: [1, { b: 2 }] }, []],
    [{ a: [1, { b: 2 }] }, { a: [1, { b: 3 }] }, ["a"]],
    [{ a: [1] }, { a: [1, 2] }, ["a"]],
    [{ a: {} }, { a: [] }, ["a"]],
    [{ a: {}, z: 1 }, { a: null, z: 1 }, ["a"]],
  ])("from %j to %j", (before, after, expected) => {
    expect(changedFields(before, after)).toEqual(expected);
  });

  test("there are none exactly between equal values", () => {
    const json = fc.jsonValue({ maxDepth: 3 });
    fc.assert(
      fc.property(json, json, (a, b) => {
        expect(changedFields(a, structuredClone(a))).toEqual([]);
        expect(changedFields({ x: a }, { x: b }).length === 0).toBe(isDeepStrictEqual(a, b));
      }),
    );
  });
});
