import { expect, it, vi } from "vitest";
import { DetachedWork } from "./detached-work.ts";

it("gives the outcome to the caller or to the aftermath, never to both, whenever the caller leaves", async () => {
  for (let turns = 0; turns < 8; turns += 1) {
    const detached = new DetachedWork();
    const caller = new AbortController();
    const work = Promise.withResolvers<string>();
    const done = vi.fn(async () => undefined);
    const outcome = detached
      .run(() => work.promise, caller.signal, { done })
      .then(
        (value) => value,
        (error: unknown) => error,
      );
    work.resolve("made");
    for (let turn = 0; turn < turns; turn += 1) {
      await Promise.resolve();
    }
    caller.abort();
    const taken = (await outcome) === "made";
    await detached.settled();
    expect(done).toHaveBeenCalledTimes(taken ? 0 : 1);
  }
});

it("leaves a caller that has an error already alone", async () => {
  const detached = new DetachedWork();
  const caller = new AbortController();
  const failed = vi.fn();
  const outcome = detached.run(() => Promise.reject(new Error("broken")), caller.signal, { failed });
  await expect(outcome.finally(() => caller.abort())).rejects.toThrow("broken");
  expect(detached.size).toBe(0);
  await detached.settled();
  expect(failed).not.toHaveBeenCalled();
});

it("waits for work that other detached work left behind", async () => {
  const detached = new DetachedWork();
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const leave = (work: Promise<void>, done?: () => Promise<void>): void => {
    const caller = new AbortController();
    void detached.run(() => work, caller.signal, { done }).catch(() => undefined);
    caller.abort();
  };
  leave(first.promise, async () => leave(second.promise));
  const settled = vi.fn();
  const settling = detached.settled().then(settled);
  first.resolve();
  await new Promise((resolve) => setImmediate(resolve));
  expect(settled).not.toHaveBeenCalled();
  expect(detached.size).toBe(1);
  second.resolve();
  await settling;
});
