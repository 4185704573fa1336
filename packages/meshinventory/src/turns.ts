import { setImmediate as immediate } from "node:timers/promises";

/** How long one stretch of work may hold the event loop, in milliseconds. */
const stretchMs = 4;

/**
 * Runs pieces of work one after the other and gives the event loop its turn between them, so that a burst of replies is
 * not read in one go while requests wait.
 */
export class Turns {
  #tail: Promise<void> = Promise.resolve();
  #usedMs = 0;

  /** Runs `work` when it is its turn; rejects with what it throws. */
  take<T>(work: () => T): Promise<T> {
    const result = this.#tail.then(async () => {
      if (this.#usedMs >= stretchMs) {
        this.#usedMs = 0;
        await immediate();
      }
      const began = performance.now();
      try {
        return work();
      } finally {
        this.#usedMs += performance.now() - began;
      }
    });
    this.#tail = result.then(
      () => undefined,
      () => undefined,
    );
    return result;
  }
}
