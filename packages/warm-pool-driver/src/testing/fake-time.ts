import { setImmediate as immediate } from "node:timers/promises";
import type { Timing } from "@org/kubeinventory/client";

/** Time that passes when the test says so. */
export class FakeTime implements Timing {
  #nowMs = 0;
  #made = 0;
  readonly #held = new Set<{ readonly dueMs: number; readonly order: number; readonly callback: () => void }>();

  now(): number {
    return this.#nowMs;
  }

  random(): number {
    return 0.5;
  }

  after(ms: number, callback: () => void): () => void {
    this.#made += 1;
    const held = { dueMs: this.#nowMs + ms, order: this.#made, callback };
    this.#held.add(held);
    return () => void this.#held.delete(held);
  }

  /** How many calls are still to come. */
  get pending(): number {
    return this.#held.size;
  }

  /** Lets time pass, and everything happen that comes of it. */
  async pass(ms: number): Promise<void> {
    const until = this.#nowMs + ms;
    await settle();
    for (;;) {
      const next = [...this.#held].toSorted((a, b) => a.dueMs - b.dueMs || a.order - b.order)[0];
      if (next === undefined || next.dueMs > until) {
        break;
      }
      this.#nowMs = Math.max(this.#nowMs, next.dueMs);
      this.#held.delete(next);
      next.callback();
      await settle();
    }
    this.#nowMs = until;
    await settle();
  }

  /** Time passes and nobody notices, as for a process that is stopped. What was due comes with the next `pass`. */
  sleep(ms: number): void {
    this.#nowMs += ms;
  }
}

/** Another machine's clock: it began elsewhere and does not run at the same speed. */
export class SkewedTime implements Timing {
  readonly #time: FakeTime;
  readonly #offsetMs: number;
  readonly #rate: number;

  constructor(time: FakeTime, offsetMs: number, rate: number) {
    this.#time = time;
    this.#offsetMs = offsetMs;
    this.#rate = rate;
  }

  now(): number {
    return this.#offsetMs + this.#time.now() * this.#rate;
  }

  random(): number {
    return 0.9;
  }

  after(ms: number, callback: () => void): () => void {
    return this.#time.after(ms / this.#rate, callback);
  }
}

/** Waits until everything that could happen without time passing has happened. */
async function settle(): Promise<void> {
  await immediate();
  await immediate();
}
