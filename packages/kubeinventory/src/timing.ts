/** Time and chance, handed in so that tests need not wait. */
export interface Timing {
  /** Milliseconds that never go back. */
  now(): number;
  /** At least 0, below 1. */
  random(): number;
  /** Calls back after `ms` milliseconds. Returns what calls it off. */
  after(ms: number, callback: () => void): () => void;
}

/** The real ones. A pending call keeps the process alive. */
export const realTiming: Timing = {
  now: () => performance.now(),
  random: Math.random,
  after(ms, callback) {
    const timer = setTimeout(callback, ms);
    return () => clearTimeout(timer);
  },
};

/** Resolves after `ms` milliseconds, or at once when the signal fires. */
export function pause(timing: Timing, ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  if (signal.aborted) {
    resolve();
    return promise;
  }
  const done = (): void => {
    cancel();
    signal.removeEventListener("abort", done);
    resolve();
  };
  const cancel = timing.after(ms, done);
  signal.addEventListener("abort", done, { once: true });
  return promise;
}
