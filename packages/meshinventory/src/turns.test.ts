import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { Turns, type Steps } from "./turns.ts";

function* steps<T>(count: number, each: (step: number) => void, value: T): Steps<T> {
  for (let step = 0; step < count; step += 1) {
    each(step);
    yield;
  }
  return value;
}

const never = new AbortController().signal;

function work(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end) {
    // Holds the event loop, as decoding does.
  }
}

it("runs one piece of work after the other, whatever they throw", async () => {
  const turns = new Turns();
  const seen: string[] = [];
  const first = turns.take(never, () => steps(3, (step) => seen.push(`a${step}`), "a"));
  const second = turns.take(never, () =>
    steps(
      1,
      () => {
        throw new Error("no");
      },
      "b",
    ),
  );
  const third = turns.take(never, () => steps(2, (step) => seen.push(`c${step}`), "c"));
  await expect(second).rejects.toThrow("no");
  expect([await first, await third]).toEqual(["a", "c"]);
  expect(seen).toEqual(["a0", "a1", "a2", "c0", "c1"]);
});

it("lets others have the event loop between steps that take long", async () => {
  const turns = new Turns();
  const order: string[] = [];
  const long = turns.take(never, () => steps(30, () => work(1), undefined)).then(() => order.push("long"));
  setImmediate(() => order.push("request"));
  await long;
  expect(order).toEqual(["request", "long"]);
});

it("drops what is left of a piece of work at the abort, and goes on with the next", async () => {
  const turns = new Turns();
  const stop = new AbortController();
  let ran = 0;
  const endless = turns.take(stop.signal, () =>
    steps(
      Number.POSITIVE_INFINITY,
      () => {
        ran += 1;
        work(1);
      },
      undefined,
    ),
  );
  const next = turns.take(never, () => steps(1, () => undefined, "next"));
  await sleep(20);
  stop.abort(new Error("stop"));
  await expect(endless).rejects.toThrow("stop");
  expect(await next).toBe("next");
  const then = ran;
  await sleep(20);
  expect(ran).toBe(then);
});
