import type { Timing } from "../timing.ts";

/** From this on, in milliseconds, a call waits for {@link ManualTiming.pass}; shorter ones come at once. */
const HELD_FROM_MS = 60_000;

/** Time that stands still. Short waits are noted and over at once, long ones end when the test says so. */
export class ManualTiming implements Timing {
  #nowMs = 0;
  readonly #held = new Set<{ readonly dueMs: number; readonly callback: () => void }>();
  /** The short waits so far, in milliseconds. */
  readonly waits: number[] = [];

  now(): number {
    return this.#nowMs;
  }

  random(): number {
    return 0.5;
  }

  after(ms: number, callback: () => void): () => void {
    if (ms < HELD_FROM_MS) {
      this.waits.push(ms);
      const timer = setImmediate(callback);
      return () => clearImmediate(timer);
    }
    const held = { dueMs: this.#nowMs + ms, callback };
    this.#held.add(held);
    return () => void this.#held.delete(held);
  }

  /** Lets time pass. Held calls that are due come in their order. */
  pass(ms: number): void {
    this.#nowMs += ms;
    for (const held of [...this.#held].sort((a, b) => a.dueMs - b.dueMs)) {
      if (held.dueMs <= this.#nowMs && this.#held.delete(held)) {
        held.callback();
      }
    }
  }
}
