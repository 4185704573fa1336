import type { Timing } from "@org/kubeinventory/client";

/** Real time. A pending call does not keep the process alive. */
export const REAL_TIMING: Timing = {
  now: () => performance.now(),
  random: Math.random,
  after(ms, callback) {
    const timer = setTimeout(callback, ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
};
