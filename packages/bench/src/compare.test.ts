import { describe, expect, it } from "vitest";
import { compare, cpuClock } from "./compare.ts";
import type { Contender, Effort } from "./compare.ts";

const EFFORT: Effort = { rounds: 3, minRounds: 1, warmUp: 1, batchMicros: 100, budgetMicros: 1e9 };

/** A clock that only the contenders move, and a list of the batches they ran. */
function bench(): { clock: () => number; ran: string[]; costing: (name: string, micros: () => number) => Contender } {
  let now = 0;
  const ran: string[] = [];
  return {
    clock: () => now,
    ran,
    costing: (name, micros) => ({
      times: 1,
      run: (times) => {
        ran.push(name);
        now += micros() * times;
        return now;
      },
    }),
  };
}

/** The values one after the other, the last one for ever. */
function inTurn(...values: readonly number[]): () => number {
  let at = 0;
  return () => values[Math.min(at++, values.length - 1)] ?? Number.NaN;
}

describe("a comparison", () => {
  it("runs its contenders in turns, every other round the other way round", async () => {
    const { clock, ran, costing } = bench();
    await compare({ a: costing("a", () => 1), b: costing("b", () => 1) }, EFFORT, clock);
    expect(ran).toStrictEqual(["a", "b", "a", "b", "b", "a", "a", "b"]);
  });

  it("does not count what warms up", async () => {
    const { clock, costing } = bench();
    const costs = await compare({ a: costing("a", inTurn(1000, 2)), b: costing("b", inTurn(500, 1)) }, EFFORT, clock);
    expect(costs.micros("a")).toBe(2);
    expect(costs.ratio("a", "b")).toBe(2);
  });

  it("takes each ratio within a round, so that a machine that slows down changes none", async () => {
    const { clock, costing } = bench();
    const costs = await compare(
      { a: costing("a", inTurn(0, 2, 20, 200)), b: costing("b", inTurn(0, 1, 10, 100)) },
      EFFORT,
      clock,
    );
    expect(costs.ratio("a", "b")).toBe(2);
    expect(costs.ratio("b", "a")).toBe(0.5);
  });

  it("makes batches long enough, and is not taken in by a slow first time", async () => {
    const { clock } = bench();
    let now = clock();
    let first = true;
    const batches: number[] = [];
    const quick: Contender = {
      run: (times) => {
        batches.push(times);
        now += first ? 10_000 : times;
        first = false;
        return now;
      },
    };
    const costs = await compare({ quick }, EFFORT, () => now);
    expect(batches.at(-1)).toBe(128);
    expect(costs.micros("quick")).toBe(1);
  });

  it("measures fewer rounds when they would take too long, but never none", async () => {
    for (const [budgetMicros, rounds] of [
      [0, 1],
      [25, 2],
      [1e9, 3],
    ] as const) {
      const { clock, ran, costing } = bench();
      await compare({ a: costing("a", () => 10) }, { ...EFFORT, budgetMicros }, clock);
      expect(ran).toHaveLength(1 + rounds);
    }
  });

  it("prepares every batch outside the measured time", async () => {
    let now = 0;
    let prepared = 0;
    const contender: Contender = {
      times: 1,
      before: () => {
        prepared += 1;
        now += 1000;
      },
      run: () => (now += 3),
    };
    const costs = await compare({ contender }, EFFORT, () => now);
    expect(costs.micros("contender")).toBe(3);
    expect(prepared).toBe(4);
  });

  it("hands on what a contender throws, and refuses to measure nothing", async () => {
    const broken: Contender = {
      times: 1,
      run: () => {
        throw new Error("broken");
      },
    };
    await expect(compare({ broken }, EFFORT)).rejects.toThrow("broken");
    await expect(compare({ broken }, { ...EFFORT, minRounds: 0 })).rejects.toThrow(RangeError);
  });

  it("has a clock that only work moves forward", () => {
    const before = cpuClock();
    let sum = 0;
    while (cpuClock() === before) {
      sum += 1;
    }
    expect(sum).toBeGreaterThanOrEqual(0);
    expect(cpuClock()).toBeGreaterThan(before);
  });
});
