import { Turns } from "./text-stream.ts";

/** What a {@link WatchBody} works with. */
export interface WatchBodyParts {
  /**
   * What is to be sent next, `undefined` while there is nothing. Called again after {@link WatchBody.wake}, and only as
   * fast as the reader reads. An empty one means that it has only begun to look.
   */
  readonly next: () => Uint8Array<ArrayBuffer> | undefined;
  /** Called once, when the watch has ended for whatever reason. */
  readonly ended: () => void;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

/**
 * The body of a watch. It takes one piece at a time from its feed and holds none beyond it: a reader that does not read
 * costs a pointer. Ends without an error at its time-out, when the signal fires, or when it is told to.
 */
export class WatchBody {
  readonly stream: ReadableStream<Uint8Array<ArrayBuffer>>;
  readonly #parts: WatchBodyParts;
  readonly #timer: NodeJS.Timeout;
  readonly #turns = new Turns();
  #close: () => void = () => undefined;
  #wake: () => void = () => undefined;
  #ended = false;

  constructor(parts: WatchBodyParts) {
    this.#parts = parts;
    this.stream = new ReadableStream<Uint8Array<ArrayBuffer>>({
      start: (controller) => {
        this.#close = () => controller.close();
      },
      pull: (controller) => this.#pull(controller),
      cancel: () => {
        // A cancelled stream is closed already.
        this.#close = () => undefined;
        this.end();
      },
    });
    this.#timer = setTimeout(() => this.end(), parts.timeoutMs);
    parts.signal.addEventListener("abort", this.end, { once: true });
    if (parts.signal.aborted) {
      this.end();
    }
  }

  get hasEnded(): boolean {
    return this.#ended;
  }

  /** There may be something to send. */
  wake(): void {
    this.#wake();
  }

  /** Ends the watch. What the reader did not take yet of the last piece it still gets. */
  readonly end = (): void => {
    if (this.#ended) {
      return;
    }
    this.#ended = true;
    clearTimeout(this.#timer);
    this.#parts.signal.removeEventListener("abort", this.end);
    this.#close();
    this.#wake();
    this.#parts.ended();
  };

  async #pull(controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>): Promise<void> {
    while (!this.#ended) {
      const next = this.#parts.next();
      if (next === undefined) {
        await this.#woken();
        continue;
      }
      if (next.length > 0) {
        controller.enqueue(next);
        // Other readers want to be served as well.
        await this.#turns.give();
        return;
      }
      await this.#turns.give();
    }
  }

  #woken(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }
}
