import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fromJsonLine, met, toJsonLine } from "./figures.ts";
import type { Bar, Figure } from "./figures.ts";

const FIGURE: Figure = { name: "store.get-by-id", fleet: "200x2000", value: 1.23456, unit: "us" };
const ratio = (limit: number, side: Bar["side"] = "at most"): Bar => ({ limit, on: "ratio", side });
const value = (limit: number, side: Bar["side"] = "at most"): Bar => ({ limit, on: "value", side });

describe("a figure", () => {
  it.each([
    ["without a bar", {}, undefined],
    ["at its bar", { ratio: 1.5, bar: ratio(1.5) }, true],
    ["over its bar", { ratio: 1.51, bar: ratio(1.5) }, false],
    ["with a bar on a ratio it does not have", { bar: ratio(1.5) }, false],
    ["that is no number", { value: Number.NaN, bar: value(1) }, false],
    ["with a bar on its value", { value: 3, ratio: 0.1, bar: value(2) }, false],
    ["that must not be lower", { value: 2500, bar: value(2500, "at least") }, true],
    ["that is lower than it must be", { value: 2499, bar: value(2500, "at least") }, false],
  ] as const)("%s", (_what, change, expected) => {
    expect(met({ ...FIGURE, ...change })).toBe(expected);
  });

  it("is one line of JSON with stable names", () => {
    const line = toJsonLine({
      ...FIGURE,
      baseline: 0.5,
      against: "a map",
      ratio: 2.469,
      bar: ratio(1.5),
      published: "9 us",
    });
    expect(JSON.parse(line)).toStrictEqual({
      name: "store.get-by-id",
      fleet: "200x2000",
      value: 1.235,
      unit: "us",
      baseline: 0.5,
      against: "a map",
      ratio: 2.469,
      bar: 1.5,
      barOn: "ratio",
      barSide: "at most",
      met: false,
      published: "9 us",
    });
  });

  it("comes back from its line", () => {
    const number = fc.integer({ min: 0, max: 9999 });
    const figures = fc.record(
      {
        name: fc.string({ minLength: 1 }),
        fleet: fc.string(),
        value: number,
        unit: fc.constantFrom("ns", "us", "ms", "B", "/s", "count", "x"),
        baseline: number,
        against: fc.string(),
        ratio: number,
        bar: fc.record(
          {
            limit: number,
            on: fc.constantFrom("ratio", "value"),
            side: fc.constantFrom("at most", "at least"),
          },
          { noNullPrototype: true },
        ),
        published: fc.string(),
      },
      { requiredKeys: ["name", "fleet", "value", "unit"], noNullPrototype: true },
    );
    fc.assert(
      fc.property(figures, (figure) => {
        const line = toJsonLine(figure);
        expect(line).not.toContain("\n");
        expect(fromJsonLine(line)).toStrictEqual(figure);
      }),
    );
  });

  it.each(["{}", '{"name":"a","value":"1","unit":"us"}', "not JSON"])("is not read from %s", (line) => {
    expect(() => fromJsonLine(line)).toThrow();
  });
});
