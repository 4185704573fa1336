import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { idRangeFor } from "./id-range.ts";

describe("id ranges", () => {
  const whole = [{ inner: 0, count: 4_294_967_295 }];

  test("never overlap for different guests where the machine has all ids", () => {
    fc.assert(
      fc.property(fc.nat(29_999), fc.nat(29_999), (a, b) => {
        const [one, two] = [idRangeFor(whole, a), idRangeFor(whole, b)];
        expect(one?.count).toBe(65_536);
        expect(one?.base).toBeGreaterThan(1_000_000_000);
        expect((one?.base ?? 0) + 65_536).toBeLessThan(2 ** 32 - 1);
        if (a !== b) {
          expect(Math.abs((one?.base ?? 0) - (two?.base ?? 0))).toBeGreaterThanOrEqual(65_536);
        }
      }),
    );
  });

  test.each([
    ["a container with 65536 ids", [{ inner: 0, count: 65_536 }], { base: 10_000, count: 55_536 }],
    ["a rootless container with one id", [{ inner: 0, count: 1 }], undefined],
    [
      "root and a few more",
      [
        { inner: 0, count: 1 },
        { inner: 1, count: 10_500 },
      ],
      undefined,
    ],
  ])("fit into %s", (_, map, expected) => {
    expect(idRangeFor(map, 5)).toEqual(expected);
  });
});
