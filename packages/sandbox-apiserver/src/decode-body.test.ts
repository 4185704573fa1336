import { cpuUsage } from "node:process";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeBody } from "./decode-body.ts";
import type { DecodedBody } from "./decode-body.ts";

const read = (text: string, type = "application/json"): DecodedBody => decodeBody(Buffer.from(text), type);
const YAML = "application/yaml";
/** Nine lists, each of nine times the one before. */
const BOMB = Array.from("abcdefghi", (key, at) => {
  const before = at === 0 ? "x" : `*${"abcdefghi".charAt(at - 1)}`;
  return `${key}: &${key} [${Array.from({ length: 9 }, () => before).join(",")}]`;
}).join("\n");

const refusal = (code: number, message: string): Error =>
  expect.objectContaining({ code, message: expect.stringContaining(message) as string }) as Error;

describe("a body", () => {
  test.each([
    ["a: 1\nb: {c: [x, y]}\n", { a: 1, b: { c: ["x", "y"] } }],
    ["# only a comment behind\na: 2026-11-30T10:00:00Z\n", { a: "2026-11-30T10:00:00Z" }],
    ["---\na: yes\n", { a: "yes" }],
    ["base: &b {x: 1}\nother: {<<: *b, y: 2}\n", { base: { x: 1 }, other: { x: 1, y: 2 } }],
    ['{"a": 1}', { a: 1 }],
    ["{a: 1}", { a: 1 }],
  ])("is read as YAML: %j", (text, value) => {
    expect(read(text, YAML).value).toEqual(value);
  });

  test.each([
    ["nothing", "", "application/json", 400, "is not JSON"],
    ["a half", '{"a":', "application/json", 400, "is not JSON"],
    ["YAML", "a: 1", "application/json", 400, "is not JSON"],
    ["a text", '"a"', "application/json", 400, "is not an object"],
    ["null", "null", "application/json", 400, "is not an object"],
    ["a list", "- a", YAML, 400, "is not an object"],
    ["a bad indent", "a:\n  b: 1\n c: 2", YAML, 400, "is not YAML"],
    ["two documents", "a: 1\n---\nb: 2", YAML, 400, "is not YAML"],
    ["a bomb", BOMB, YAML, 400, "YAML that cannot be an object"],
    ["much YAML", `a: "${"é".repeat(16 * 1024)}"`, YAML, 413, "limit is 32768 of YAML; send it as JSON"],
    ["a deep nest", `${'{"a":'.repeat(600)}1${"}".repeat(600)}`, "application/json", 400, "nested deeper"],
    ["a deep nest of lists", `{"a":${"[".repeat(600)}${"]".repeat(600)}}`, YAML, 400, "nested deeper"],
  ])("is refused that is %s", (_case, text, type, code, message) => {
    expect(() => read(text, type)).toThrow(refusal(code, message));
  });

  test("is UTF-8", () => {
    expect(() => decodeBody(Uint8Array.of(0x7b, 0xff, 0x7d), YAML)).toThrow(refusal(400, "UTF-8"));
  });

  test("never fails in another way", () => {
    const token = fc.constantFrom(
      "{",
      "}",
      "[",
      "]",
      ":",
      ",",
      '"',
      "a",
      "\\",
      "- ",
      "\n",
      " ",
      "&x",
      "*x",
      "!!int",
      "|",
      "0",
      "null",
    );
    const text = fc.array(token, { maxLength: 30 }).map((parts) => parts.join(""));
    fc.assert(
      fc.property(fc.oneof(text, fc.string()), fc.constantFrom("application/json", YAML), (body, type) => {
        try {
          read(body, type);
        } catch (error) {
          expect(error).toMatchObject({ name: "ApiStatusError", code: 400 });
        }
      }),
    );
  });
});

describe("members that are said twice", () => {
  test.each([
    ['{"a":1,"a":2}', ["a"]],
    ['{"a":{"b":1,"b":1,"b":1},"a":{}}', ["a.b", "a"]],
    [String.raw`{"a":1,"\u0061":2}`, ["a"]],
    ['{"l":[{"x":1},{"x":1,"x":2}]}', ["l[1].x"]],
    ['{"l":[[],[{"x":1,"x":2}]]}', ["l[1][0].x"]],
    ['{"a":"{\\"a\\":1,\\"a\\":2}","b":":,{}[]"}', []],
    ['{"a":{"x":1},"b":{"x":1}}', []],
  ])("of %s", (text, duplicates) => {
    expect(read(text).duplicates).toEqual(duplicates);
    expect(read(text, "application/apply-patch+yaml").duplicates).toEqual(duplicates);
  });

  test("are found in YAML, and the last of them counts", () => {
    const { value, duplicates } = read("a: 1\nb:\n- x: 1\n  x: 2\na: 3\n", YAML);
    expect(duplicates).toEqual(["b[0].x", "a"]);
    expect(value).toEqual({ a: 3, b: [{ x: 2 }] });
  });

  test("cost little, however many there are and however deep: nobody reads them all", () => {
    const twice = Array.from({ length: 1000 }, (_, at) => `"k${at}":1,"k${at}":2`).join(",");
    const repeated = `${'{"a":'.repeat(400)}{${'"x":1,'.repeat(200_000)}"x":2}${"}".repeat(400)}`;
    const began = cpuUsage().user;
    expect(read(repeated).duplicates).toHaveLength(1);
    // Microseconds of this process alone. It took fifty times as long where each mention was given its path.
    expect(cpuUsage().user - began).toBeLessThan(3_000_000);
    const deep = `${`{"${"a".repeat(100)}":`.repeat(400)}{${twice}}${"}".repeat(400)}`;
    const { duplicates } = read(deep);
    expect(duplicates.length).toBeLessThanOrEqual(100);
    expect(duplicates.join("").length).toBeLessThan(200_000);
    expect(read(`{${twice}}`).duplicates).toHaveLength(100);
    expect(read(`{"a":1,"${"b".repeat(5000)}":1,"${"b".repeat(5000)}":1}`).duplicates).toEqual([
      `${"b".repeat(1024)}…`,
    ]);
  });

  test("are none in what JSON.stringify writes", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
        expect(read(JSON.stringify(value)).duplicates).toEqual([]);
      }),
    );
  });

  test("are found wherever one is put", () => {
    fc.assert(
      fc.property(fc.string(), fc.jsonValue(), fc.jsonValue(), (key, first, second) => {
        const member = JSON.stringify(key);
        const text = `{"outer":[0,{${member}:${JSON.stringify(first)},${member}:${JSON.stringify(second)}}]}`;
        expect(read(text).duplicates).toContain(`outer[1].${key}`);
      }),
    );
  });
});
