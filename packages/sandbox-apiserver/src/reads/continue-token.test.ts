import * as fc from "fast-check";
import { expect, it } from "vitest";
import { formatContinue, parseContinue } from "./continue-token.ts";

const text = fc.string({ unit: "grapheme", maxLength: 12 });
const point = fc.record({
  version: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map(String),
  namespace: text,
  name: text,
  id: text,
  node: text,
});

it("reads what it wrote, whatever the names", () => {
  fc.assert(
    fc.property(point, (one) => {
      expect(parseContinue(formatContinue(one))).toEqual(one);
    }),
  );
});

const token = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");

it.each([
  ["no base64", "!!!"],
  ["other base64", "a+/="],
  ["padding", `${token(["1", "n", "a", "i", "m"])}=`],
  ["no JSON", Buffer.from("no").toString("base64url")],
  ["an object", token({ version: "1" })],
  ["too few parts", token(["1", "n", "a", "i"])],
  ["too many parts", token(["1", "n", "a", "i", "m", "x"])],
  ["numbers", token([1, "n", "a", "i", "m"])],
  ["a version that is no number", token(["x", "n", "a", "i", "m"])],
  ["a token of another server", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MX0"],
])("refuses %s", (_case, bad) => {
  expect(() => parseContinue(bad)).toThrow(expect.objectContaining({ code: 400, reason: "BadRequest" }));
});

it("never fails in another way", () => {
  fc.assert(
    fc.property(fc.string(), (bad) => {
      try {
        parseContinue(bad);
      } catch (error) {
        expect(error).toMatchObject({ code: 400 });
      }
    }),
  );
});
