import * as fc from "fast-check";
import { expect, it } from "vitest";
import { parseSeconds } from "./duration.ts";

it.each([
  ["300", 300],
  ["0", 0],
  ["0s", 0],
  ["300s", 300],
  ["1m30s", 90],
  ["1.5h", 5400],
  ["2h45m", 9900],
  ["2000ms", 2],
  ["2147483647s", 2_147_483_647],
  ["2147483648s", undefined],
  ["500ms", undefined],
  ["1.5s", undefined],
  ["-5s", undefined],
  ["5 s", undefined],
  ["5 minutes", undefined],
  ["1d", undefined],
  ["5M", undefined],
  ["s", undefined],
  ["", undefined],
  ["1e3", undefined],
  ["1,000s", undefined],
  ["9".repeat(400), undefined],
])("reads %j as %j seconds", (text, seconds) => {
  expect(parseSeconds(text)).toBe(seconds);
});

it("adds hours, minutes and seconds", () => {
  const part = fc.integer({ min: 0, max: 500 });
  fc.assert(
    fc.property(part, part, part, (h, m, s) => {
      expect(parseSeconds(`${h}h${m}m${s}s`)).toBe(h * 3600 + m * 60 + s);
    }),
  );
});
