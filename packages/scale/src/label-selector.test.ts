import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isScaleError } from "./errors.ts";
import { formatLabelSelector, matchesLabels, parseLabelSelector } from "./label-selector.ts";
import type { LabelRequirement } from "./label-selector.ts";

type Labels = Readonly<Record<string, string>>;

const selects = (selector: string, labels: Labels): boolean =>
  matchesLabels(parseLabelSelector(selector), (key) => (Object.hasOwn(labels, key) ? labels[key] : undefined));

describe("a label selector", () => {
  it.each<[string, Labels, boolean]>([
    ["", {}, true],
    [" \t\r\n", { a: "1" }, true],
    ["a=1", { a: "1" }, true],
    ["a=1", { a: "2" }, false],
    ["a=1", {}, false],
    ["a==1", { a: "1" }, true],
    [" a == 1 ", { a: "1" }, true],
    ["a!=1", { a: "2" }, true],
    ["a!=1", { a: "1" }, false],
    ["a!=1", {}, true],
    ["a=", { a: "" }, true],
    ["a=", {}, false],
    ["a=,b", { a: "", b: "1" }, true],
    ["a!=", { a: "1" }, true],
    ["a in (1,2)", { a: "2" }, true],
    ["a in(1 , 2)", { a: "3" }, false],
    ["a in (1)", {}, false],
    ["a notin (1, 2)", { a: "3" }, true],
    ["a notin (1,2)", { a: "1" }, false],
    ["a notin (1)", {}, true],
    ["a in (,1)", { a: "" }, true],
    ["a in (1,)", { a: "" }, true],
    ["a in (,)", { a: "1" }, false],
    ["a", { a: "" }, true],
    ["a", {}, false],
    ["!a", {}, true],
    ["! a", { a: "1" }, false],
    ["a=1,b!=2,c", { a: "1", b: "1", c: "" }, true],
    ["a=1,b!=2,c", { a: "1", b: "1" }, false],
    ["a=1,a=2", { a: "1" }, false],
    ["in in (in, notin)", { in: "notin" }, true],
    ["notin", { notin: "1" }, true],
    ["in=in", { in: "in" }, true],
    ["sandbox.cocoonstack.io/phase in (Running)", { "sandbox.cocoonstack.io/phase": "Running" }, true],
    ["a=X_y.z-9", { a: "X_y.z-9" }, true],
  ])("%j of %j: %s", (selector, labels, selected) => {
    expect(selects(selector, labels)).toBe(selected);
  });

  it.each([
    ["a=1,", "expected a label key, found the end at column 5"],
    [",a", 'expected a label key, found "," at column 1'],
    ["=1", 'expected a label key, found "=" at column 1'],
    ["!", "expected a label key, found the end at column 2"],
    ["!a=1", `expected ',' or the end, found "=" at column 3`],
    ["!a in (1)", `expected ',' or the end, found "in" at column 4`],
    ["!!a", 'expected a label key, found "!" at column 2'],
    ["a b", 'expected an operator (=, ==, !=, in, notin), found "b" at column 3'],
    ["a IN (1)", 'expected an operator (=, ==, !=, in, notin), found "IN" at column 3'],
    ["a>1", 'expected an operator (=, ==, !=, in, notin), found ">" at column 2'],
    ["a < 1", 'expected an operator (=, ==, !=, in, notin), found "<" at column 3'],
    ["a===1", 'expected a label value, found "=" at column 4'],
    ["a=!b", 'expected a label value, found "!" at column 3'],
    ["a=1 2", `expected ',' or the end, found "2" at column 5`],
    ["a=(1)", 'expected a label value, found "(" at column 3'],
    ["a in", "expected '(', found the end at column 5"],
    ["a in 1", `expected '(', found "1" at column 6`],
    ["a in ()", 'expected a label value, found ")" at column 7'],
    ["a in (1", "expected ',' or ')', found the end at column 8"],
    ["a in (1 2)", `expected ',' or ')', found "2" at column 9`],
    ["a in (1))", `expected ',' or the end, found ")" at column 9`],
    ["a=rt:24.04", '"rt:24.04" is no label value at column 3'],
    ["a=ghcr.io/x/y", '"ghcr.io/x/y" is no label value at column 3'],
    ["a=-1", '"-1" is no label value at column 3'],
    [`a=${"x".repeat(64)}`, `"${"x".repeat(64)}" is no label value at column 3`],
    ["-a", '"-a" is no label key at column 1'],
    ["a/", '"a/" is no label key at column 1'],
    ["/a", '"/a" is no label key at column 1'],
    ["a/b/c", '"a/b/c" is no label key at column 1'],
    ["A.b/c", '"A.b/c" is no label key at column 1'],
    ["a..b/c", '"a..b/c" is no label key at column 1'],
    ["ä", '"ä" is no label key at column 1'],
    ["x".repeat(100), `"${"x".repeat(80)}…" is no label key at column 1`],
    [`${"x.".repeat(127)}y/z`, `"${"x.".repeat(40)}…" is no label key at column 1`],
  ])("R3: that reads %j is refused: %s", (selector, why) => {
    expect(() => parseLabelSelector(selector)).toThrow(
      expect.objectContaining({ code: "bad_request", message: `label selector: ${why}` }),
    );
  });

  it.each(["a".repeat(63), `${"x".repeat(253)}/a`, `a=${"x".repeat(63)}`])("may be as long as %j", (selector) => {
    expect(parseLabelSelector(selector)).toHaveLength(1);
  });
});

const PLAIN = { noNullPrototype: true } as const;
const word = fc.stringMatching(/^[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,3}[A-Za-z0-9])?$/);
const key = fc.oneof(word, fc.constantFrom("in", "notin", "a", "b", "sandbox.cocoonstack.io/node"));
const value = fc.oneof(word, fc.constantFrom("", "in", "notin", "1"));
const requirement: fc.Arbitrary<LabelRequirement> = fc.oneof(
  fc.record({ key, operator: fc.constantFrom("exists" as const, "absent" as const) }, PLAIN),
  fc.record(
    {
      key,
      operator: fc.constantFrom("in" as const, "notin" as const),
      values: fc.uniqueArray(value, { minLength: 1, maxLength: 4 }).map((values) => values.sort()),
    },
    PLAIN,
  ),
);
const blank = fc.stringMatching(/^[ \t\r\n]{0,2}$/);

/** Says what a requirement means, in other words. */
function satisfied(asked: LabelRequirement, labels: Labels): boolean {
  const held = Object.entries(labels).filter(([name]) => name === asked.key);
  const wanted = "values" in asked ? held.filter(([, text]) => asked.values.some((one) => one === text)) : held;
  const positive = asked.operator === "exists" || asked.operator === "in";
  return positive ? wanted.length === 1 : wanted.length === 0;
}

describe("any label selector", () => {
  it("reads back as what was written", () => {
    fc.assert(
      fc.property(fc.array(requirement, { maxLength: 5 }), (requirements) => {
        expect(parseLabelSelector(formatLabelSelector(requirements))).toStrictEqual(requirements);
      }),
    );
  });

  it("means the same with white space wherever a word ends", () => {
    fc.assert(
      fc.property(fc.array(requirement, { maxLength: 4 }), blank, (requirements, space) => {
        const spaced = formatLabelSelector(requirements).replace(/!=|[=!,()]/g, `${space}$&${space}`);
        expect(parseLabelSelector(`${space}${spaced}${space}`)).toStrictEqual(requirements);
      }),
    );
  });

  it("selects what its requirements say one by one", () => {
    const labels = fc.dictionary(key, value, { maxKeys: 4, noNullPrototype: true });
    fc.assert(
      fc.property(fc.array(requirement, { maxLength: 3 }), labels, (requirements, given) => {
        const expected = requirements.every((asked) => satisfied(asked, given));
        expect(selects(formatLabelSelector(requirements), given)).toBe(expected);
      }),
    );
  });

  it("reads or is refused as a bad request, and nothing else", () => {
    const scraps = fc.array(
      fc.oneof(key, value, fc.constantFrom("!", "=", "==", "(", ")", ",", " ", "<", ">", "/", ":")),
    );
    const text = fc.oneof(
      fc.string({ unit: "binary" }),
      scraps.map((parts) => parts.join("")),
    );
    fc.assert(
      fc.property(text, (selector) => {
        try {
          const requirements = parseLabelSelector(selector);
          expect(parseLabelSelector(formatLabelSelector(requirements))).toStrictEqual(requirements);
        } catch (error) {
          expect(isScaleError(error, "bad_request")).toBe(true);
        }
      }),
      { numRuns: 2000 },
    );
  });
});
