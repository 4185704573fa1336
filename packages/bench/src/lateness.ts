const STEP_MS = 1;

/**
 * How late the event loop comes to what is due, as something that becomes due at a random moment meets it: while the
 * loop is busy for 10 ms, what becomes due in its first millisecond waits 10, in the second 9, and so on. Without
 * that, one long stretch would count as little as one short one.
 *
 * @param late how late each of a row of timers fired that were due 1 ms after the one before had fired, in milliseconds
 */
export function waits(late: readonly number[]): number[] {
  const all: number[] = [];
  for (const first of late) {
    for (let wait = first; wait > 0; wait -= STEP_MS) {
      all.push(wait);
    }
  }
  return all;
}

/** Watches how late timers fire until it is stopped. */
export class LatenessMeter {
  readonly #late: number[] = [];
  #timer: NodeJS.Timeout | undefined;

  start(): void {
    const next = (): void => {
      const due = performance.now() + STEP_MS;
      this.#timer = setTimeout(() => {
        this.#late.push(Math.max(0, performance.now() - due));
        next();
      }, STEP_MS);
    };
    next();
  }

  /** How late each timer fired, in milliseconds. */
  stop(): readonly number[] {
    clearTimeout(this.#timer);
    return this.#late;
  }
}
