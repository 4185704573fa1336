import { expect, it } from "vitest";
import { rfc3339 } from "./present.ts";

it.each([
  [0, "1970-01-01T00:00:00Z"],
  [1_790_000_000_999, "2026-09-21T14:13:20Z"],
  [Date.UTC(9999, 11, 31, 23, 59, 59, 999), "9999-12-31T23:59:59Z"],
  [8_640_000_000_000_000, "9999-12-31T23:59:59Z"],
  [8_640_000_000_000_001, "9999-12-31T23:59:59Z"],
])("%d ms are %s, which every client can read", (ms, text) => {
  expect(rfc3339(ms)).toBe(text);
});
