import { KubeError, oneLine } from "./errors.ts";

/** Parts of one, the finest that a quantity can be told apart by. */
const NANOS_DIGITS = 9;

/** The largest amount: 2^63-1 whole units. What is larger counts as this much. */
const MOST: bigint = (2n ** 63n - 1n) * 10n ** 9n;

/** Digits before the point from which on an amount is larger than the largest, whatever the digits are. */
const MOST_DIGITS = 20;

/**
 * Digits that are calculated with, from the first that is not zero. Past 2^-60 nanos, which is the smallest step that a
 * binary suffix can lift to a nano, none of them counts but in rounding up.
 */
const DIGITS_CAP = 128;

const DECIMAL: ReadonlyMap<string, number> = new Map([
  ["n", -9],
  ["u", -6],
  ["m", -3],
  ["", 0],
  ["k", 3],
  ["M", 6],
  ["G", 9],
  ["T", 12],
  ["P", 15],
  ["E", 18],
]);

const BINARY: ReadonlyMap<string, bigint> = new Map([
  ["Ki", 10n],
  ["Mi", 20n],
  ["Gi", 30n],
  ["Ti", 40n],
  ["Pi", 50n],
  ["Ei", 60n],
]);

const FORM = /^([+-]?)(?:(\d+)(?:\.(\d*))?|\.(\d+))(?:[eE]([+-]?\d+)|([numkMGTPE]?|[KMGTPE]i))$/;

/**
 * Reads an amount in the grammar of Kubernetes: a decimal number with a decimal suffix (`100m`, `2`, `1.5G`), a binary
 * one (`512Mi`) or an exponent (`1e3`). JSON numbers are amounts as well. Resolves to nanos: finer parts are rounded away
 * from zero, and more than 2^63-1 counts as that.
 * @param field named in the error
 * @throws KubeError `bad_object` for anything else.
 */
export function parseQuantity(value: unknown, field: string): bigint {
  const text = typeof value === "number" ? String(value) : value;
  const match = typeof text === "string" ? FORM.exec(text.trim()) : null;
  if (match === null) {
    throw new KubeError("bad_object", `${field}: ${oneLine(JSON.stringify(value) ?? "nothing")} is no quantity`);
  }
  const [, sign, whole = "", fraction = match[4] ?? "", , exponent, suffix = ""] = match;
  const digits = (whole + fraction).replace(/^0+/, "");
  if (digits === "") {
    return 0n;
  }
  const shift = exponent === undefined ? (DECIMAL.get(suffix) ?? 0) : Number(exponent);
  // Where the point is, counted from the first digit that is not zero.
  const point = digits.length - fraction.length + shift;
  const amount = point > MOST_DIGITS ? MOST : nanos(digits, point, BINARY.get(suffix) ?? 0n);
  const capped = amount > MOST ? MOST : amount;
  return sign === "-" ? -capped : capped;
}

/** 0.`digits` times 10^`point` times 2^`power`, in nanos and rounded up. */
function nanos(digits: string, point: number, power: bigint): bigint {
  if (point < -DIGITS_CAP) {
    return 1n;
  }
  const kept = digits.slice(0, DIGITS_CAP);
  const rest = /[1-9]/.test(digits.slice(DIGITS_CAP)) ? 1n : 0n;
  const scaled = (BigInt(kept) + rest) << power;
  const places = kept.length - point - NANOS_DIGITS;
  if (places <= 0) {
    return scaled * 10n ** BigInt(-places);
  }
  const unit = 10n ** BigInt(places);
  return (scaled + unit - 1n) / unit;
}
