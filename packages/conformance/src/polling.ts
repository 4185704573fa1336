import { setTimeout as delay } from "node:timers/promises";

/**
 * Repeats a probe until it answers something other than `undefined` or `false`. Throws after `timeoutMs` with what was
 * waited for and the last error of the probe.
 */
export async function waitFor<T>(
  what: string,
  probe: () => Promise<T | undefined | false> | T | undefined | false,
  timeoutMs: number,
  everyMs = 50,
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  let last: unknown;
  for (;;) {
    try {
      const value = await probe();
      if (value !== undefined && value !== false) {
        return value;
      }
      last = undefined;
    } catch (error) {
      last = error;
    }
    if (Date.now() >= deadline) {
      const why = last instanceof Error ? `: ${last.message}` : "";
      throw new Error(`${what} did not happen within ${timeoutMs} ms${why}`);
    }
    await delay(everyMs);
  }
}
