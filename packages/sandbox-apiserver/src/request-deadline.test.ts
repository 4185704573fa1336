import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { timeoutOf, withinDeadline } from "./request-deadline.ts";

const query = (timeout: string): URLSearchParams => new URLSearchParams({ timeout });

describe("the time of a request", () => {
  test.each([
    ["", 60_000],
    ["0", 60_000],
    ["0s", 60_000],
    ["32s", 32_000],
    ["1.5s", 1500],
    ["1m", 60_000],
    ["500ms", 500],
    ["1s500ms", 1500],
    ["2h", 60_000],
  ])("for %j is %d ms", (timeout, ms) => {
    expect(timeoutOf(query(timeout), 60_000)).toBe(ms);
  });

  test.each(["32", "-1s", "s", "1 s", "1s ", "soon", "1d", "1e3s"])("cannot be %j", (timeout) => {
    expect(() => timeoutOf(query(timeout), 60_000)).toThrow(expect.objectContaining({ code: 400 }) as Error);
  });
});

describe("work within a deadline", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test("is what it comes to, and leaves nothing behind", async () => {
    const { signal } = new AbortController();
    const removed = vi.spyOn(signal, "removeEventListener");
    await expect(withinDeadline(() => Promise.resolve(7), { timeoutMs: 10, signal })).resolves.toBe(7);
    expect(vi.getTimerCount()).toBe(0);
    expect(removed).toHaveBeenCalledOnce();
  });

  test("is given up when the time is over, and told so", async () => {
    const { signal } = new AbortController();
    let given: AbortSignal | undefined;
    const work = (inner: AbortSignal): Promise<never> => {
      given = inner;
      return new Promise(() => undefined);
    };
    const outcome = expect(withinDeadline(work, { timeoutMs: 10, signal })).rejects.toMatchObject({ code: 504 });
    await vi.advanceTimersByTimeAsync(9);
    expect(given?.aborted).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    await outcome;
    expect(given?.aborted).toBe(true);
  });

  test("is told when the client leaves, before or while it runs", async () => {
    const client = new AbortController();
    const work = (inner: AbortSignal): Promise<boolean> => {
      const { promise, resolve } = Promise.withResolvers<boolean>();
      const end = (): void => resolve(inner.aborted);
      if (inner.aborted) {
        end();
      }
      inner.addEventListener("abort", end, { once: true });
      return promise;
    };
    const running = withinDeadline(work, { timeoutMs: 10, signal: client.signal });
    client.abort();
    await expect(running).resolves.toBe(true);
    await expect(withinDeadline(work, { timeoutMs: 10, signal: client.signal })).resolves.toBe(true);
  });
});
