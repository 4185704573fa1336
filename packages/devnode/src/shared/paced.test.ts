import { setImmediate as others } from "node:timers/promises";
import { expect, test } from "vitest";
import { runPaced, type Steps } from "./paced.ts";

function* spin(milliseconds: number): Steps<void> {
  for (const end = performance.now() + milliseconds; performance.now() < end;) {
    yield;
  }
}

test("lets others run between steps, and ends with what the steps end with", async () => {
  let turns = 0;
  const over = new AbortController();
  const counting = (async () => {
    while (!over.signal.aborted) {
      turns += 1;
      await others();
    }
  })();
  const value = await runPaced(
    (function* (): Steps<string> {
      yield* spin(40);
      return "value";
    })(),
  );
  over.abort();
  await counting;
  expect([value, turns > 3]).toEqual(["value", true]);
});

test.each(["an abort", "a failure"])("closes what is open after %s", async (what) => {
  const stop = new AbortController();
  let closed = 0;
  const steps = (function* (): Steps<void> {
    try {
      yield;
      if (what === "a failure") {
        throw new Error("stop");
      }
      stop.abort(new Error("stop"));
      yield;
    } finally {
      closed += 1;
    }
  })();
  await expect(runPaced(steps, stop.signal)).rejects.toThrow("stop");
  expect(closed).toBe(1);
});
