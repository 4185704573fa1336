import { assert, integer, property } from "fast-check";
import { expect, test } from "vitest";
import { durationMs, formatDuration } from "./duration.ts";

test.each([
  ["10s", 10_000, "10s"],
  ["1m30s", 90_000, "1m30s"],
  ["300ms", 300, "300ms"],
  ["1.5h", 5_400_000, "1h30m0s"],
  ["0", 0, "0s"],
  ["0s", 0, "0s"],
  ["30m", 1_800_000, "30m0s"],
  ["2500ms", 2500, "2.5s"],
])("%s is %i ms and prints as %s", (text, ms, printed) => {
  expect(durationMs(text)).toBe(ms);
  expect(formatDuration(ms)).toBe(printed);
});

test("a negative duration keeps its sign", () => {
  expect(durationMs("-1s")).toBe(-1000);
});

test.each([
  "",
  " ",
  "10",
  "s",
  "10 s",
  "ten seconds",
  "10s!",
  "1d",
  "1y",
  "10sec",
  "--1s",
  "1h 30m",
  "NaN",
  "Infinity",
])("%j is no duration", (text) => {
  expect(durationMs(text)).toBeUndefined();
});

test("a printed duration reads back as itself", () => {
  assert(
    property(integer({ min: 0, max: 10 ** 9 }), (ms) => {
      expect(durationMs(formatDuration(ms))).toBeCloseTo(ms, 3);
    }),
  );
});
