import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Refusal } from "../node/refusal.ts";
import { foldKeys, repeatedKey } from "./strict-json.ts";

describe("repeated members", () => {
  test.each([
    ['{"a":1,"a":2}', "a"],
    ['{"a":1,"A":2}', "a"],
    ['{"a":1,"\\u0061":2}', "a"],
    ['{"x":[{"b":1},{"b":2,"b":3}]}', "b"],
    ['{"a":{"a":{"a":1}}}', undefined],
    ['{"a":["a","a"],"b":"a"}', undefined],
    ['[{"a":1},{"a":2}]', undefined],
    ['{"a":"\\"a\\":1,","b":1}', undefined],
    ['{"a":"{","b":"}"}', undefined],
    ["{}", undefined],
    ['"a"', undefined],
  ])("of %s: %s", (text, expected) => {
    expect(repeatedKey(text)).toBe(expected);
  });

  test("are never found in what JSON.stringify wrote from names that differ", () => {
    const names = fc.string().filter((name) => name === name.toLowerCase());
    fc.assert(
      fc.property(fc.jsonValue(), fc.dictionary(names, fc.jsonValue({ maxDepth: 0 })), (value, object) => {
        if (JSON.stringify(value) === JSON.stringify(value).toLowerCase()) {
          expect(repeatedKey(JSON.stringify([value, object], null, 1))).toBeUndefined();
        }
      }),
    );
  });

  test("are found wherever one is planted", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.string(), (value, name) => {
        const key = JSON.stringify(name);
        const text = `[${JSON.stringify(value).toLowerCase()},{"other":1,${key}:1,${key}:2}]`;
        fc.pre(name.toLowerCase() !== "other");
        expect(repeatedKey(text)).toBeDefined();
      }),
    );
  });
});

describe("folding", () => {
  test("lower-cases one level and cannot reach a prototype", () => {
    const folded = foldKeys(JSON.parse('{"Template":"A","METADATA":{"Key":1},"__PROTO__":{"polluted":true}}'));
    expect(folded).toMatchObject({ template: "A", metadata: { Key: 1 } });
    expect("polluted" in folded).toBe(false);
  });

  test.each([null, [], "x", 1, true])("refuses %j", (value) => {
    expect(() => foldKeys(value)).toThrow(Refusal);
  });
});
