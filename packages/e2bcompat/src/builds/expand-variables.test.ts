import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { expandVariables } from "./expand-variables.ts";

const KNOWN = { A: "one", B_2: "two words", EMPTY: "", PATH: "/bin", DOLLAR: "$A" };

describe("expandVariables", () => {
  it.each([
    ["plain", "plain"],
    ["", ""],
    ["$A", "one"],
    ["${A}", "one"],
    ["x$A-y${B_2}z", "xone-ytwo wordsz"],
    ["/opt/bin:$PATH", "/opt/bin:/bin"],
    ["$MISSING|${MISSING}", "|"],
    ["$A_", ""],
    ["${A:-no}", "one"],
    ["${MISSING:-yes}", "yes"],
    ["${EMPTY:-yes}", "yes"],
    ["${MISSING:-}", ""],
    ["${A:+set}", "set"],
    ["${MISSING:+set}", ""],
    ["${MISSING:-${A}}", "one"],
    ["${MISSING:-a${MISSING:-b$A}c}", "abonec"],
    ["${A:+($A)}", "(one)"],
    ["\\$A", "$A"],
    ["\\\\", "\\\\"],
    ["a\\nb", "a\\nb"],
    ["$DOLLAR", "$A"],
    ["$(id)", "$(id)"],
    ["`id`", "`id`"],
    ["$1 $$ $", "$1 $$ $"],
    ["$toString$__proto__${constructor}", ""],
  ])("%j is %j", (text, expected) => {
    expect(expandVariables(text, KNOWN)).toBe(expected);
  });

  it.each(["${", "${}", "${A", "${A%x}", "${A:=x}", "${A:?x}", "${#A}", "${A[0]}", "${ A}", "${A:-${B}", "${!A}"])(
    "refuses %j",
    (text) => {
      expect(() => expandVariables(text, KNOWN)).toThrow(expect.objectContaining({ code: "bad_request" }));
    },
  );

  it("leaves text without dollar signs as it is", () => {
    fc.assert(
      fc.property(
        fc.string().map((text) => text.replaceAll("$", "")),
        (text) => expandVariables(text, KNOWN) === text,
      ),
    );
  });

  it("never looks into the values", () => {
    fc.assert(fc.property(fc.string(), (value) => expandVariables("<$A${A}>", { A: value }) === `<${value}${value}>`));
  });
});
