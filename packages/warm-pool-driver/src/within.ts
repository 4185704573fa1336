import { KubeError, type Timing } from "@org/kubeinventory/client";

/**
 * Calls with a signal that fires with the given one, and after `ms` milliseconds.
 * @param subject names the call in the error
 * @throws what the call throws; when the time is over a KubeError `timeout` is the reason of its signal.
 */
export async function within<T>(
  timing: Timing,
  ms: number,
  signal: AbortSignal,
  subject: string,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const life = new AbortController();
  const end = (): void => life.abort(signal.reason);
  if (signal.aborted) {
    end();
  }
  signal.addEventListener("abort", end, { once: true });
  const cancel = timing.after(ms, () => {
    life.abort(new KubeError("timeout", `${subject}: no answer within ${ms / 1000} s`));
  });
  try {
    return await call(life.signal);
  } finally {
    cancel();
    signal.removeEventListener("abort", end);
  }
}

/** Calls for every item, `limit` of them at once. Rejects with the first failure; nothing is begun after it. */
export async function eachOf<T>(items: readonly T[], limit: number, call: (item: T) => Promise<void>): Promise<void> {
  const rest = items.values();
  let failed = false;
  const work = async (): Promise<void> => {
    for (const item of rest) {
      if (failed) {
        return;
      }
      try {
        await call(item);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, work));
}
