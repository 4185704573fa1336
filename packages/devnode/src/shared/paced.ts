import { setImmediate as others } from "node:timers/promises";

/** Work that is done in small steps, without waiting: at a `yield` others run when it is their turn. */
export type Steps<T> = Generator<undefined, T, void>;

/** Longest time for which nothing else runs, in milliseconds, as long as each step is short. */
const SLICE_MS = 2;

/**
 * Runs steps to their end. A synchronous file system call costs a fraction of an asynchronous one, and thousands of them
 * must not hold up everything else.
 *
 * @throws what the steps throw, and the signal's reason; their `finally` blocks have run then
 */
export async function runPaced<T>(steps: Steps<T>, signal?: AbortSignal): Promise<T> {
  let since = performance.now();
  let ended = false;
  try {
    let step = steps.next();
    while (step.done !== true) {
      signal?.throwIfAborted();
      if (performance.now() - since > SLICE_MS) {
        await others();
        since = performance.now();
      }
      step = steps.next();
    }
    ended = true;
    return step.value;
  } finally {
    if (!ended) {
      steps.return(undefined as never);
    }
  }
}
