import { describe, expect, it } from "vitest";

import { parseKeepaliveMs, parseTimeoutMs } from "./timeout.ts";

describe("time limits", () => {
  it.each([
    [undefined, undefined],
    ["0", 0],
    ["60000", 60_000],
    ["9999999999", 9_999_999_999],
  ])("of %s are %s ms", (value, expected) => {
    expect(parseTimeoutMs(value)).toBe(expected);
  });

  it.each(["", " ", "1.0", "-1", "+1", "12345678901", "1e3", "0x10", "١"])("of %j are refused", (value) => {
    expect(() => parseTimeoutMs(value)).toThrow("connect-timeout-ms");
  });
});

describe("keepalive intervals", () => {
  it.each([
    [undefined, 90_000],
    ["50", 50_000],
    ["1", 1000],
    ["0", 90_000],
    ["-5", 90_000],
    ["1.5", 90_000],
    ["soon", 90_000],
    ["99999999", 90_000],
  ])("of %s are %i ms", (value, expected) => {
    expect(parseKeepaliveMs(value)).toBe(expected);
  });
});
