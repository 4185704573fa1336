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
    all.push(first);
    for (let wait = first - STEP_MS; wait > 0; wait -= STEP_MS) {
      all.push(wait);
    }
  }
  return all;
}

/** How late timers fired, one number a timer, in milliseconds. */
export interface Lateness {
  /** By the clock: also while others had the processor. */
  readonly late: readonly number[];
  /** By the processor time that this thread took meanwhile: its own doing alone. */
  readonly busy: readonly number[];
}

function threadMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** Watches how late timers fire until it is stopped. */
export class LatenessMeter {
  readonly #late: number[] = [];
  readonly #busy: number[] = [];
  #timer: NodeJS.Timeout | undefined;
  #due = 0;
  #spent = 0;

  start(): void {
    this.#due = performance.now() + STEP_MS;
    this.#spent = threadMs();
    this.#timer = setTimeout(() => {
      this.#note();
      this.start();
    }, STEP_MS);
  }

  /** The last timer is as late as it is now. */
  stop(): Lateness {
    if (this.#timer !== undefined) {
      clearTimeout(this.#timer);
      this.#timer = undefined;
      this.#note();
    }
    return { late: this.#late, busy: this.#busy };
  }

  #note(): void {
    this.#late.push(Math.max(0, performance.now() - this.#due));
    this.#busy.push(threadMs() - this.#spent);
  }
}
