import { afterEach, describe, expect, it, vi } from "vitest";
import { firstHit, within } from "./first-hit.ts";

afterEach(() => {
  vi.useRealTimers();
});

const never = (): Promise<never> => new Promise(() => undefined);

describe("firstHit", () => {
  it("asks in order, never more than the limit at a time", async () => {
    const started: number[] = [];
    let active = 0;
    let most = 0;
    const hit = await firstHit([1, 2, 3, 4, 5, 6, 7], 3, async (item) => {
      started.push(item);
      active += 1;
      most = Math.max(most, active);
      await Promise.resolve();
      active -= 1;
      return undefined;
    });
    expect(hit).toBeUndefined();
    expect(started).toStrictEqual([1, 2, 3, 4, 5, 6, 7]);
    expect(most).toBe(3);
  });

  it("answers for no items at all", async () => {
    await expect(firstHit([], 4, never)).resolves.toBeUndefined();
  });

  it("takes a rejection for a miss", async () => {
    const find = async (item: number): Promise<string | undefined> => {
      if (item === 1) {
        throw new Error("broken");
      }
      return item === 3 ? "three" : undefined;
    };
    await expect(firstHit([1, 2, 3], 1, find)).resolves.toBe("three");
  });

  it("aborts the others at the first hit and swallows their rejections", async () => {
    const signals: AbortSignal[] = [];
    const find = async (item: number, signal: AbortSignal): Promise<string | undefined> => {
      signals.push(signal);
      if (item === 2) {
        await Promise.resolve();
        return "two";
      }
      return new Promise((_resolve, reject) => {
        signal.addEventListener("abort", () => reject(new Error("late")));
      });
    };
    await expect(firstHit([1, 2, 3, 4], 3, find)).resolves.toBe("two");
    expect(signals).toHaveLength(3);
    expect(signals.every((signal) => signal.aborted)).toBe(true);
  });

  it("rejects as soon as the caller leaves, and starts nothing more", async () => {
    const caller = new AbortController();
    const reason = new Error("left");
    const find = vi.fn(never);
    const hit = firstHit([1, 2, 3], 2, find, caller.signal);
    caller.abort(reason);
    await expect(hit).rejects.toBe(reason);
    expect(find).toHaveBeenCalledTimes(2);
    await expect(firstHit([1], 1, find, caller.signal)).rejects.toBe(reason);
    expect(find).toHaveBeenCalledTimes(2);
  });
});

describe("within", () => {
  const open = new AbortController().signal;

  it("passes a value and a rejection on and leaves no timer", async () => {
    vi.useFakeTimers();
    await expect(within(500, open, async () => "value")).resolves.toBe("value");
    await expect(within(500, undefined, () => Promise.reject(new Error("broken")))).rejects.toThrow("broken");
    expect(vi.getTimerCount()).toBe(0);
  });

  it("gives up at the deadline although the call ignores its signal", async () => {
    vi.useFakeTimers();
    let own: AbortSignal | undefined;
    const outcome = within(500, open, (signal) => {
      own = signal;
      return never();
    });
    await vi.advanceTimersByTimeAsync(500);
    await expect(outcome).resolves.toBeUndefined();
    expect(own?.aborted).toBe(true);
  });

  it("gives up with its parent", async () => {
    const parent = new AbortController();
    const outcome = within(60_000, parent.signal, never);
    parent.abort();
    await expect(outcome).resolves.toBeUndefined();
    const call = vi.fn(never);
    await expect(within(60_000, parent.signal, call)).resolves.toBeUndefined();
    expect(call).not.toHaveBeenCalled();
  });
});
