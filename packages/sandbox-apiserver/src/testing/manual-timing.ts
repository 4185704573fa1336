import { setImmediate as turn } from "node:timers/promises";
import type { Timing } from "@org/kubeinventory/client";

/** Time that stands still until a test lets it pass. */
export class ManualTiming implements Timing {
  #nowMs = 0;
  readonly #held = new Set<{ readonly dueMs: number; readonly callback: () => void }>();

  now(): number {
    return this.#nowMs;
  }

  random(): number {
    return 0.5;
  }

  after(ms: number, callback: () => void): () => void {
    const held = { dueMs: this.#nowMs + ms, callback };
    this.#held.add(held);
    return () => void this.#held.delete(held);
  }

  /** How long until each of the calls that are held, the soonest first. */
  get waits(): readonly number[] {
    return [...this.#held].map(({ dueMs }) => dueMs - this.#nowMs).toSorted((a, b) => a - b);
  }

  /** Lets time pass; what is due comes in its order. */
  pass(ms: number): void {
    this.#nowMs += ms;
    for (const held of [...this.#held].toSorted((a, b) => a.dueMs - b.dueMs)) {
      if (held.dueMs <= this.#nowMs && this.#held.delete(held)) {
        held.callback();
      }
    }
  }

  /** Lets what was begun go on until it waits for something, then lets the soonest wait be over, until `settled`. */
  async run(settled: Promise<unknown>): Promise<void> {
    const state = { over: false };
    const end = (): void => {
      state.over = true;
    };
    settled.then(end, end);
    await turn();
    while (!state.over) {
      this.pass(this.waits[0] ?? 0);
      await turn();
    }
  }
}
