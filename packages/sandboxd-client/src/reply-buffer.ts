const FIRST_SIZE = 4096;
/** Memory up to this size is kept whatever came last. */
const KEEP_SIZE = 256 * 1024;

/**
 * Memory for one reply body that is used again for the next: polls read the same megabytes every few seconds, and
 * fresh memory for each of them keeps the garbage collector busy. A view is good until the buffer is filled again.
 */
export class ReplyBuffer {
  #memory: Buffer = Buffer.alloc(0);
  #size = 0;

  /** Bytes held. */
  get size(): number {
    return this.#size;
  }

  /** The bytes held, without a copy. */
  view(): Buffer {
    return this.#memory.subarray(0, this.#size);
  }

  /** Empties the buffer; memory far above what was last needed is given up. */
  clear(): void {
    if (this.#memory.length > KEEP_SIZE && this.#size < this.#memory.length / 4) {
      this.#memory = Buffer.alloc(0);
    }
    this.#size = 0;
  }

  /** Makes room for `size` bytes in all. */
  reserve(size: number): void {
    if (size > this.#memory.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(size, FIRST_SIZE));
      this.#memory.copy(grown, 0, 0, this.#size);
      this.#memory = grown;
    }
  }

  /** Appends `chunk[start..end]`. */
  append(chunk: Buffer, start: number, end: number): void {
    const size = this.#size + end - start;
    if (size > this.#memory.length) {
      this.reserve(Math.max(size, this.#memory.length * 2));
    }
    chunk.copy(this.#memory, this.#size, start, end);
    this.#size = size;
  }
}
