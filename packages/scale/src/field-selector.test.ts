import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Sandbox } from "./domain.ts";
import { isScaleError } from "./errors.ts";
import { exactField, formatFieldSelector, matchesFields, parseFieldSelector } from "./field-selector.ts";
import type { FieldRequirement } from "./field-selector.ts";

const sandbox: Sandbox = { namespace: "n", name: "x", node: "a:1", id: "sb_1", phase: "Running", paused: false };

describe("a field selector", () => {
  it.each([
    ["", true],
    [",,", true],
    ["metadata.name=x", true],
    ["metadata.name==x", true],
    ["metadata.name!=x", false],
    ["metadata.name!=y", true],
    ["metadata.namespace=n,metadata.name=x", true],
    ["metadata.namespace=m,metadata.name=x", false],
    ["status.nodeName=a:1", true],
    ["status.nodeName!=a:1", false],
    ["metadata.name=", false],
    ["metadata.name!=", true],
    ["metadata.name= x", false],
    ["metadata.name=x,metadata.name=y", false],
  ])("%j of one sandbox: %s", (selector, selected) => {
    expect(matchesFields(parseFieldSelector(selector), sandbox)).toBe(selected);
  });

  it.each([
    ["metadata.name", '"metadata.name" is no field with =, == or != and a value'],
    ["x", '"x" is no field with =, == or != and a value'],
    ["metadata.uid=1", 'field "metadata.uid" is not supported; metadata.name, metadata.namespace, status.nodeName are'],
    [
      " metadata.name=x",
      'field " metadata.name" is not supported; metadata.name, metadata.namespace, status.nodeName are',
    ],
    [
      "status.phase=Running",
      'field "status.phase" is not supported; metadata.name, metadata.namespace, status.nodeName are',
    ],
    ["constructor=x", 'field "constructor" is not supported; metadata.name, metadata.namespace, status.nodeName are'],
    ["=x", 'field "" is not supported; metadata.name, metadata.namespace, status.nodeName are'],
    ["metadata.name=a=b", String.raw`value "a=b": a backslash stands before \, comma and =, and before nothing else`],
    ["metadata.name===b", String.raw`value "=b": a backslash stands before \, comma and =, and before nothing else`],
    [
      String.raw`metadata.name=a\b`,
      String.raw`value "a\\b": a backslash stands before \, comma and =, and before nothing else`,
    ],
    ["metadata.name=a\\", String.raw`value "a\\": a backslash stands before \, comma and =, and before nothing else`],
  ])("R3: that reads %j is refused: %s", (selector, why) => {
    expect(() => parseFieldSelector(selector)).toThrow(
      expect.objectContaining({ code: "bad_request", message: `field selector: ${why}` }),
    );
  });

  it("says which value a field must have, when it says so", () => {
    const requirements = parseFieldSelector("metadata.name!=a,metadata.name=b,metadata.name==c");
    expect(exactField(requirements, "metadata.name")).toBe("b");
    expect(exactField(requirements, "status.nodeName")).toBeUndefined();
  });
});

const field = fc.constantFrom("metadata.name" as const, "metadata.namespace" as const, "status.nodeName" as const);
const value = fc.oneof(fc.constantFrom("", "n", "x", "a:1"), fc.string({ unit: "binary" }));
const requirement: fc.Arbitrary<FieldRequirement> = fc.record(
  { field, equal: fc.boolean(), value },
  { noNullPrototype: true },
);

describe("any field selector", () => {
  it("reads back as what was written, whatever the values hold", () => {
    fc.assert(
      fc.property(fc.array(requirement, { maxLength: 4 }), (requirements) => {
        expect(parseFieldSelector(formatFieldSelector(requirements))).toStrictEqual(requirements);
      }),
    );
  });

  it("selects what its requirements say one by one", () => {
    fc.assert(
      fc.property(
        fc.array(requirement, { maxLength: 3 }),
        value,
        value,
        value,
        (requirements, namespace, name, node) => {
          const read = { "metadata.name": name, "metadata.namespace": namespace, "status.nodeName": node };
          const expected = requirements.every((asked) =>
            asked.equal ? read[asked.field] === asked.value : read[asked.field] !== asked.value,
          );
          expect(
            matchesFields(parseFieldSelector(formatFieldSelector(requirements)), { ...sandbox, namespace, name, node }),
          ).toBe(expected);
        },
      ),
    );
  });

  it("reads or is refused as a bad request, and nothing else", () => {
    const scraps = fc.array(fc.oneof(field, fc.constantFrom("=", "!", ",", "\\", " ", "x")));
    const text = fc.oneof(
      fc.string({ unit: "binary" }),
      scraps.map((parts) => parts.join("")),
    );
    fc.assert(
      fc.property(text, (selector) => {
        try {
          const requirements = parseFieldSelector(selector);
          expect(parseFieldSelector(formatFieldSelector(requirements))).toStrictEqual(requirements);
        } catch (error) {
          expect(isScaleError(error, "bad_request")).toBe(true);
        }
      }),
      { numRuns: 2000 },
    );
  });
});
