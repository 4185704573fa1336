/** Options of {@link TokenBucket}. */
export interface TokenBucketOptions {
  readonly perSecond: number;
  readonly burst: number;
  /** Milliseconds of a clock that never goes back. */
  readonly now: () => number;
}

/** A budget that fills at a steady rate up to a limit. */
export class TokenBucket {
  readonly #perMs: number;
  readonly #burst: number;
  readonly #now: () => number;
  #level: number;
  #at: number;

  constructor(options: TokenBucketOptions) {
    this.#perMs = options.perSecond / 1000;
    this.#burst = options.burst;
    this.#now = options.now;
    this.#level = options.burst;
    this.#at = options.now();
  }

  /** Spends one; false when nothing is left. */
  take(): boolean {
    const now = this.#now();
    this.#level = Math.min(this.#burst, this.#level + (now - this.#at) * this.#perMs);
    this.#at = now;
    if (this.#level < 1) {
      return false;
    }
    this.#level -= 1;
    return true;
  }

  /** Gives one back that turned out not to be needed. */
  refund(): void {
    this.#level = Math.min(this.#burst, this.#level + 1);
  }
}
