import type { Timing } from "./timing.ts";

const FIRST_MS = 800;
const LONGEST_MS = 30_000;
/** Health of this length forgives all failures before it. */
const FORGIVEN_AFTER_MS = 120_000;
/** The most of a server's wish that is honoured: a slip of it must not stop the watch for good. */
const LONGEST_WISH_MS = 300_000;

/** How long to wait after failures in a row: twice as long each time, up to 30 s, anywhere below that. */
export class Backoff {
  readonly #timing: Pick<Timing, "now" | "random">;
  #failures = 0;
  #healthySince: number | undefined;

  constructor(timing: Pick<Timing, "now" | "random">) {
    this.#timing = timing;
  }

  /** A connection stands. */
  healthy(): void {
    this.#healthySince ??= this.#timing.now();
  }

  /** The wait after one more failure, in milliseconds, and not shorter than the server asked for. */
  next(retryAfterMs = 0): number {
    if (this.#healthySince !== undefined && this.#timing.now() - this.#healthySince >= FORGIVEN_AFTER_MS) {
      this.#failures = 0;
    }
    this.#healthySince = undefined;
    const ceiling = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(this.#failures, 16));
    this.#failures += 1;
    return Math.max(this.#timing.random() * ceiling, Math.min(retryAfterMs, LONGEST_WISH_MS));
  }
}
