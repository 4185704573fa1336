import { setImmediate as nextTurn } from "node:timers/promises";

/** How much is handed on at a time, in bytes. */
const SLICE_BYTES = 128 * 1024;

/** A slice that takes less than this part of its room is copied. */
const SHORT_SLICE = 4;

/** How long the event loop may be held before others get a turn, in milliseconds. */
const STRETCH_MS = 4;

/** Texts taken between two looks at the clock. */
const TEXTS_PER_LOOK = 16;

/** A character of a string takes at most so many bytes. */
const MAX_BYTES_PER_UNIT = 3;

/** Texts as bytes, a slice at a time. What a slice has no room for goes into the next. */
export class TextSlices {
  readonly #texts: Iterator<string>;
  #over: Buffer | undefined;
  #done = false;

  constructor(texts: Iterable<string>) {
    this.#texts = texts[Symbol.iterator]();
  }

  /** The next slice; `undefined` after the last. It ends early when it has taken long, and may be empty then. */
  next(): Uint8Array<ArrayBuffer> | undefined {
    if (this.#done && this.#over === undefined) {
      return undefined;
    }
    const slice = Buffer.allocUnsafeSlow(SLICE_BYTES);
    let length = this.#takeOver(slice);
    const until = performance.now() + STRETCH_MS;
    let taken = 0;
    while (!this.#done && this.#over === undefined && length < SLICE_BYTES) {
      const next = this.#texts.next();
      if (next.done === true) {
        this.#done = true;
        break;
      }
      const text = next.value;
      if (text.length * MAX_BYTES_PER_UNIT <= SLICE_BYTES - length) {
        length += slice.write(text, length);
      } else {
        const bytes = Buffer.from(text);
        const room = Math.min(bytes.length, SLICE_BYTES - length);
        bytes.copy(slice, length, 0, room);
        length += room;
        this.#over = room === bytes.length ? undefined : bytes.subarray(room);
      }
      taken += 1;
      if (taken % TEXTS_PER_LOOK === 0 && performance.now() >= until) {
        break;
      }
    }
    if (length === 0 && this.#done) {
      return undefined;
    }
    // A reader may take its time, and thousands of them may hold a slice each: a short one keeps no room for a long one.
    return length * SHORT_SLICE < SLICE_BYTES ? new Uint8Array(slice.subarray(0, length)) : slice.subarray(0, length);
  }

  #takeOver(slice: Buffer): number {
    const over = this.#over;
    if (over === undefined) {
      return 0;
    }
    const length = over.copy(slice);
    this.#over = length === over.length ? undefined : over.subarray(length);
    return length;
  }
}

/** Lets others have the event loop when it was held for long. */
export class Turns {
  #began = performance.now();

  /** Resolves at once, or after a turn of the loop when it is time. */
  async give(): Promise<void> {
    if (performance.now() - this.#began >= STRETCH_MS) {
      await nextTurn();
      this.#began = performance.now();
    }
  }

  /** Whether it is time. */
  get due(): boolean {
    return performance.now() - this.#began >= STRETCH_MS;
  }
}

/** A body of texts, made as fast as it is read and no faster, a few milliseconds at a time. */
export function textStream(texts: Iterable<string>): ReadableStream<Uint8Array<ArrayBuffer>> {
  const slices = new TextSlices(texts);
  return new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      for (;;) {
        // A fast reader asks again within the same turn of the loop.
        await nextTurn();
        const slice = slices.next();
        if (slice === undefined) {
          controller.close();
          return;
        }
        if (slice.length > 0) {
          controller.enqueue(slice);
          return;
        }
      }
    },
  });
}
