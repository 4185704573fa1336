import { describe, expect, it } from "vitest";
import { Backoff } from "./backoff.ts";

function backoff(): {
  readonly waits: (count: number, wish?: number) => number[];
  readonly live: (ms: number) => void;
} {
  let nowMs = 0;
  const one = new Backoff({ now: () => nowMs, random: () => 0.5 });
  return {
    waits: (count, wish) => Array.from({ length: count }, () => one.next(wish)),
    live(ms) {
      one.healthy();
      nowMs += ms;
    },
  };
}

describe("the wait after a failure", () => {
  it("doubles from 0.8 s up to 30 s, and lies anywhere below that", () => {
    expect(backoff().waits(8)).toEqual([400, 800, 1600, 3200, 6400, 12_800, 15_000, 15_000]);
    const [least, most] = [0, 1 - Number.EPSILON].map((chance) => new Backoff({ now: () => 0, random: () => chance }));
    expect(least?.next()).toBe(0);
    expect(most?.next()).toBeLessThan(800);
  });

  it("goes on growing when health was short, and starts over after two minutes of it", () => {
    const { waits, live } = backoff();
    waits(4);
    live(119_999);
    expect(waits(1)).toEqual([6400]);
    live(120_000);
    expect(waits(2)).toEqual([400, 800]);
  });

  it("is at least what the server asks for, and never more than five minutes of that", () => {
    const { waits } = backoff();
    expect(waits(1, 7000)).toEqual([7000]);
    expect(waits(1, 10)).toEqual([800]);
    expect(waits(1, 1e12)).toEqual([300_000]);
  });
});
