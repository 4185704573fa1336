/** The events of the last while, at most a fixed number of them. Memory grows with use, up to 8 bytes for each. */
export class SlidingWindow {
  readonly #lengthMs: number;
  readonly #limit: number;
  #times: Float64Array = new Float64Array(8);
  /** Where the oldest stands. */
  #first = 0;
  #size = 0;

  constructor(limit: number, lengthMs: number) {
    this.#limit = limit;
    this.#lengthMs = lengthMs;
  }

  /** How many events are in the window that ends now. */
  used(nowMs: number): number {
    while (this.#size > 0 && this.#at(0) <= nowMs - this.#lengthMs) {
      this.#first = (this.#first + 1) % this.#times.length;
      this.#size -= 1;
    }
    return this.#size;
  }

  /** Notes events. Times must not go back. More than the limit push the oldest out. */
  add(nowMs: number, count: number): void {
    this.used(nowMs);
    for (let left = Math.min(count, this.#limit); left > 0; left -= 1) {
      if (this.#size === this.#limit) {
        this.#first = (this.#first + 1) % this.#times.length;
        this.#size -= 1;
      }
      if (this.#size === this.#times.length) {
        this.#grow();
      }
      this.#times[(this.#first + this.#size) % this.#times.length] = nowMs;
      this.#size += 1;
    }
  }

  /** Milliseconds until the oldest `count` events have left; `undefined` when there are fewer. */
  untilLeft(nowMs: number, count: number): number | undefined {
    const used = this.used(nowMs);
    if (count <= 0) {
      return 0;
    }
    return count > used ? undefined : this.#at(count - 1) + this.#lengthMs - nowMs;
  }

  #at(index: number): number {
    return this.#times[(this.#first + index) % this.#times.length] ?? 0;
  }

  #grow(): void {
    const bigger = new Float64Array(Math.min(this.#limit, this.#times.length * 2));
    for (let index = 0; index < this.#size; index += 1) {
      bigger[index] = this.#at(index);
    }
    this.#times = bigger;
    this.#first = 0;
  }
}
