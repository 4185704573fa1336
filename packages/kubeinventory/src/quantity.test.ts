import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { KubeError } from "./errors.ts";
import { parseQuantity } from "./quantity.ts";

const read = (value: unknown): bigint => parseQuantity(value, "cpu");
const DIGITS = Array.from("0123456789");
const SIGNS = Array.from(".+-eEinumkKMGTP x");
const ONE = 10n ** 9n;
const MOST = (2n ** 63n - 1n) * ONE;

describe("an amount", () => {
  test.each([
    ["0", 0n],
    ["-0", 0n],
    ["0.000", 0n],
    ["00012", 12n * ONE],
    ["+2", 2n * ONE],
    ["-2", -2n * ONE],
    ["2.", 2n * ONE],
    [".5", ONE / 2n],
    ["1.5", (3n * ONE) / 2n],
    [" 1 ", ONE],
    ["100m", ONE / 10n],
    ["1n", 1n],
    ["1u", 1000n],
    ["3k", 3000n * ONE],
    ["1E", 10n ** 18n * ONE],
    ["1e3", 1000n * ONE],
    ["1E3", 1000n * ONE],
    ["1e+3", 1000n * ONE],
    ["1e-3", ONE / 1000n],
    ["1Ki", 1024n * ONE],
    ["0.5Gi", 2n ** 29n * ONE],
    ["8Ei", MOST],
    ["-8Ei", -MOST],
    ["7Ei", 7n * 2n ** 60n * ONE],
    ["1e999999999999999999999", MOST],
    ["1e-999999999999999999999", 1n],
    [`0e${"9".repeat(400)}`, 0n],
    ["0.0000000001", 1n],
    ["-0.0000000001", -1n],
    ["1.0000000001", ONE + 1n],
    [`1.${"0".repeat(5000)}1`, ONE + 1n],
    [`${"0".repeat(5000)}1`, ONE],
    [2, 2n * ONE],
    [1.5, (3n * ONE) / 2n],
    [1e21, MOST],
    [1e-7, 100n],
  ])("%j is read", (value, nanos) => {
    expect(read(value)).toBe(nanos);
  });

  test.each([
    "",
    " ",
    "+",
    ".",
    "-.",
    "Ki",
    "e3",
    "1e",
    "1e1.5",
    "1e3k",
    "1K",
    "1ki",
    "1mi",
    "1KiB",
    "1 Ki",
    "1,5",
    "0x10",
    "1_000",
    "١",
    "NaN",
    Number.NaN,
    Number.POSITIVE_INFINITY,
    true,
    null,
    undefined,
    {},
    ["1"],
  ])("%j is refused by name", (value) => {
    expect(() => read(value)).toThrow(KubeError);
    expect(() => read(value)).toThrow(/^cpu: .* is no quantity$/);
  });

  test("that is long and wrong is refused without delay", () => {
    expect(() => read(`${"1".repeat(2_000_000)}x`)).toThrow(/no quantity/);
    expect(read("9".repeat(2_000_000))).toBe(MOST);
  });

  test("means number times suffix, rounded away from zero and capped, whatever it is", () => {
    const suffix = fc.constantFrom(
      ...([
        ["n", 1n, 10n ** 9n],
        ["u", 1n, 10n ** 6n],
        ["m", 1n, 1000n],
        ["", 1n, 1n],
        ["k", 1000n, 1n],
        ["M", 10n ** 6n, 1n],
        ["G", 10n ** 9n, 1n],
        ["T", 10n ** 12n, 1n],
        ["P", 10n ** 15n, 1n],
        ["E", 10n ** 18n, 1n],
        ["Ki", 2n ** 10n, 1n],
        ["Mi", 2n ** 20n, 1n],
        ["Gi", 2n ** 30n, 1n],
        ["Ti", 2n ** 40n, 1n],
        ["Pi", 2n ** 50n, 1n],
        ["Ei", 2n ** 60n, 1n],
        ["e7", 10n ** 7n, 1n],
        ["E-7", 1n, 10n ** 7n],
      ] as const),
    );
    const digits = (least: number): fc.Arbitrary<string> =>
      fc.string({ unit: fc.constantFrom(...DIGITS), minLength: least, maxLength: 40 });
    fc.assert(
      fc.property(
        digits(1),
        digits(0),
        fc.constantFrom("", "+", "-"),
        suffix,
        (whole, fraction, sign, [name, by, of]) => {
          const numerator = BigInt(whole + fraction) * by * ONE;
          const denominator = 10n ** BigInt(fraction.length) * of;
          const exact = (numerator + denominator - 1n) / denominator;
          const size = exact > MOST ? MOST : exact;
          expect(read(`${sign}${whole}.${fraction}${name}`)).toBe(sign === "-" ? -size : size);
        },
      ),
    );
  });

  test("is either read or refused as such", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...DIGITS, ...SIGNS), maxLength: 12 }), (text) => {
        try {
          expect(typeof read(text)).toBe("bigint");
        } catch (error) {
          expect(error).toMatchObject({ name: "KubeError", code: "bad_object" });
        }
      }),
    );
  });
});
