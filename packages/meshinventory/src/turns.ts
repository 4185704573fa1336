import { setImmediate as immediate } from "node:timers/promises";

/** How long one stretch of work may hold the event loop, in milliseconds. */
const STRETCH_MS = 4;

/** Work in small steps: it may be interrupted wherever it yields. Nobody else takes a turn before it has ended. */
export type Steps<T> = Generator<undefined, T, undefined>;

/**
 * Runs pieces of work one after the other and gives the event loop its turn between them and between their steps, so
 * that a burst of replies, or a single huge one, is not read in one go while requests wait.
 */
export class Turns {
  #tail: Promise<unknown> = Promise.resolve();
  #usedMs = 0;

  /** Runs `work` when it is its turn; rejects with what it throws. An abort drops the steps that are left. */
  take<T>(signal: AbortSignal, work: () => Steps<T>): Promise<T> {
    const result = this.#tail.then(() => this.#run(signal, work));
    this.#tail = result.catch(() => undefined);
    return result;
  }

  async #run<T>(signal: AbortSignal, work: () => Steps<T>): Promise<T> {
    signal.throwIfAborted();
    const steps = work();
    for (;;) {
      if (this.#usedMs >= STRETCH_MS) {
        this.#usedMs = 0;
        await immediate();
        signal.throwIfAborted();
      }
      const began = performance.now();
      try {
        const step = steps.next();
        if (step.done === true) {
          return step.value;
        }
      } finally {
        this.#usedMs += performance.now() - began;
      }
    }
  }
}
