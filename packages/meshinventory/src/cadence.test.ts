import { expect, it } from "vitest";
import { nextDue } from "./cadence.ts";

it.each([
  ["after a short tick, one interval later", 100, 103, 110],
  ["after a tick that began late, still on the beat", 100, 109, 110],
  ["after a tick that used its interval, at once", 100, 110, 110],
  ["after a tick that ended a little later than that, at once", 100, 113, 110],
  ["after a tick that took several intervals, at once and only once", 100, 137, 130],
])("the next tick is due %s", (_name, due, now, expected) => {
  expect(nextDue(due, now, 10)).toBe(expected);
});
