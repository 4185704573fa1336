import * as fc from "fast-check";
import { describe, expect, it } from "vitest";

import { parseRange } from "./range.ts";

describe("parseRange", () => {
  it("gives ranges inside the body for any numbers", () => {
    const edge = fc.option(fc.nat(300), { nil: "" });
    fc.assert(
      fc.property(edge, edge, fc.nat(200), (first, last, size) => {
        const range = parseRange(`bytes=${first}-${last}`, size);
        if (typeof range !== "object") return;
        expect(range.start).toBeGreaterThanOrEqual(0);
        expect(range.start).toBeLessThanOrEqual(range.end);
        expect(range.end).toBeLessThan(size);
        if (typeof first === "number") expect(range.start).toBe(first);
        else expect(range.end - range.start + 1).toBe(Math.min(Number(last), size));
      }),
    );
  });

  it("takes anything else for no range", () => {
    fc.assert(
      fc.property(fc.string(), (header) => {
        fc.pre(!header.startsWith("bytes="));
        expect(parseRange(header, 10)).toBeUndefined();
      }),
    );
    expect(parseRange(undefined, 10)).toBeUndefined();
  });

  it("finds nothing in an empty body", () => {
    expect([parseRange("bytes=0-", 0), parseRange("bytes=-1", 0)]).toEqual(["unsatisfiable", "unsatisfiable"]);
  });
});
