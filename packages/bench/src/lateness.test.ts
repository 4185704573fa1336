import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { LatenessMeter, waits } from "./lateness.ts";

it("counts a long stretch for everything that becomes due in it", () => {
  expect(waits([3, 0, 0.5])).toStrictEqual([3, 2, 1, 0, 0.5]);
  expect(waits([])).toStrictEqual([]);
});

it("notices that the loop was held up, and stops", async () => {
  const meter = new LatenessMeter();
  meter.start();
  await sleep(5);
  const until = performance.now() + 30;
  while (performance.now() < until) {
    // Holds the loop.
  }
  await sleep(5);
  const stopped = structuredClone(meter.stop());
  expect(Math.max(...stopped.late)).toBeGreaterThan(20);
  expect(stopped.busy).toHaveLength(stopped.late.length);
  // The loop was held up by this thread itself.
  expect(Math.max(...stopped.busy)).toBeGreaterThan(0);
  await sleep(5);
  expect(meter.stop()).toStrictEqual(stopped);
});
