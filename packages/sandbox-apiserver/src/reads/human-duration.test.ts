import { expect, it } from "vitest";
import { humanDuration } from "./human-duration.ts";

const S = 1000;
const M = 60 * S;
const H = 60 * M;
const D = 24 * H;
const Y = 365 * D;

it.each([
  [-3 * S, "<invalid>"],
  [-1.5 * S, "0s"],
  [0, "0s"],
  [1.9 * S, "1s"],
  [119 * S, "119s"],
  [120 * S, "2m"],
  [121 * S, "2m1s"],
  [9 * M + 59 * S, "9m59s"],
  [10 * M + 59 * S, "10m"],
  [179 * M, "179m"],
  [180 * M, "3h"],
  [7 * H + 59 * M, "7h59m"],
  [8 * H + 59 * M, "8h"],
  [47 * H, "47h"],
  [48 * H, "2d"],
  [7 * D + 23 * H, "7d23h"],
  [8 * D + 23 * H, "8d"],
  [2 * Y - D, "729d"],
  [2 * Y, "2y"],
  [2 * Y + D, "2y1d"],
  [8 * Y + 5 * D, "8y"],
])("%d ms are %s", (milliseconds, text) => {
  expect(humanDuration(milliseconds)).toBe(text);
});
