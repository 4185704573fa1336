import { ScaleError } from "@org/scale";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { keepLease } from "./build-lease.ts";
import type { BuildLease } from "./build-lease.ts";

/** Lengths that were asked for, and how often the sandbox was taken for gone. */
interface Kept {
  readonly lease: BuildLease;
  readonly asked: number[];
  readonly lost: () => number;
  answer: () => Promise<void>;
}

function keep(seconds = 60): Kept {
  const asked: number[] = [];
  let lost = 0;
  const kept: Kept = {
    asked,
    lost: () => lost,
    answer: async () => undefined,
    lease: keepLease({
      seconds,
      renew: async (length) => {
        asked.push(length);
        await kept.answer();
      },
      onLost: () => {
        lost += 1;
      },
    }),
  };
  return kept;
}

const fails = (code: "not_found" | "node_failed") => () => Promise.reject(new ScaleError(code, code));

describe("the lease of a build's sandbox", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it("is renewed four times in its own time until it is stopped, and not afterwards", async () => {
    const kept = keep();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(kept.asked).toStrictEqual([60, 60, 60, 60]);
    kept.lease.stop();
    await vi.advanceTimersByTimeAsync(600_000);
    expect([kept.asked.length, kept.lost()]).toStrictEqual([4, 0]);
  });

  it("is lost at once when the node says that the sandbox is gone", async () => {
    const kept = keep();
    kept.answer = fails("not_found");
    await vi.advanceTimersByTimeAsync(15_000);
    expect([kept.asked.length, kept.lost()]).toStrictEqual([1, 1]);
    await vi.advanceTimersByTimeAsync(600_000);
    expect([kept.asked.length, kept.lost()]).toStrictEqual([1, 1]);
  });

  it("is tried again soon after a failure, and outlives a node that is silent for less than a lease", async () => {
    const kept = keep();
    kept.answer = fails("node_failed");
    await vi.advanceTimersByTimeAsync(45_000);
    expect([kept.asked.length, kept.lost()]).toStrictEqual([7, 0]);
    kept.answer = async () => undefined;
    await vi.advanceTimersByTimeAsync(600_000);
    expect(kept.lost()).toBe(0);
    kept.lease.stop();
  });

  it("is lost when the node took no renewal for a whole lease", async () => {
    const kept = keep();
    await vi.advanceTimersByTimeAsync(15_000);
    kept.answer = fails("node_failed");
    await vi.advanceTimersByTimeAsync(60_000);
    expect(kept.lost()).toBe(0);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(kept.lost()).toBe(1);
  });

  it("is longer on demand, and stays so; a failure of that is no loss", async () => {
    const kept = keep();
    kept.answer = fails("node_failed");
    await kept.lease.lengthen(300);
    kept.answer = async () => undefined;
    await vi.advanceTimersByTimeAsync(90_000);
    expect(kept.asked.slice(0, 3)).toStrictEqual([300, 300, 300]);
    expect(kept.lost()).toBe(0);
    kept.lease.stop();
  });

  it("that was stopped while a renewal was under way is not lost", async () => {
    const kept = keep();
    const late = Promise.withResolvers<void>();
    kept.answer = () => late.promise;
    await vi.advanceTimersByTimeAsync(15_000);
    kept.lease.stop();
    late.reject(new ScaleError("not_found", "released"));
    await vi.advanceTimersByTimeAsync(60_000);
    expect([kept.asked.length, kept.lost()]).toStrictEqual([1, 0]);
  });
});
