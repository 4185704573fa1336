const MAX_WAITING = 64;

/** Items that become events one by one, when they are read. */
interface Batch {
  readonly size: number;
  readonly eventAt: (at: number) => unknown;
  next: number;
}

/** How an {@link EventStream} comes and goes. */
export interface StreamHooks {
  /** Called at the first read. */
  readonly begin: () => void;
  /** Called once, when the stream ends for whatever reason. */
  readonly end: () => void;
  readonly signal: AbortSignal | undefined;
}

/**
 * Events on their way to one reader. Nothing is dropped: a writer looks at {@link hasRoom} and waits. The stream ends
 * when its signal fires or its reader returns; a read that waits then ends as well.
 */
export class EventStream<T> implements AsyncIterableIterator<T> {
  readonly #hooks: StreamHooks;
  readonly #batches: Batch[] = [];
  readonly #readers: ((result: IteratorResult<T, undefined>) => void)[] = [];
  #waiting = 0;
  #phase: "new" | "open" | "ended" = "new";

  constructor(hooks: StreamHooks) {
    this.#hooks = hooks;
  }

  /** Whether the reader has kept up. */
  get hasRoom(): boolean {
    return this.#waiting < MAX_WAITING;
  }

  get ended(): boolean {
    return this.#phase === "ended";
  }

  /** Hands on one event per item. The array is read later, piece by piece, and must not change. */
  push<I>(items: readonly I[], eventOf: (item: I) => T): void {
    if (this.ended || items.length === 0) {
      return;
    }
    this.#batches.push({ size: items.length, eventAt: (at) => eventOf(items[at] as I), next: 0 });
    this.#waiting += items.length;
    while (this.#waiting > 0 && this.#readers.length > 0) {
      this.#readers.shift()?.({ done: false, value: this.#take() });
    }
  }

  next(): Promise<IteratorResult<T, undefined>> {
    if (this.#phase === "new") {
      this.#begin();
    }
    if (this.ended) {
      return Promise.resolve({ done: true, value: undefined });
    }
    if (this.#waiting > 0) {
      return Promise.resolve({ done: false, value: this.#take() });
    }
    return new Promise((resolve) => {
      this.#readers.push(resolve);
    });
  }

  return(): Promise<IteratorResult<T, undefined>> {
    this.#end();
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #begin(): void {
    const { signal, begin } = this.#hooks;
    if (signal?.aborted === true) {
      this.#end();
      return;
    }
    signal?.addEventListener("abort", this.#end, { once: true });
    this.#phase = "open";
    begin();
  }

  readonly #end = (): void => {
    if (this.ended) {
      return;
    }
    this.#phase = "ended";
    this.#hooks.signal?.removeEventListener("abort", this.#end);
    this.#batches.length = 0;
    this.#waiting = 0;
    for (const reader of this.#readers.splice(0)) {
      reader({ done: true, value: undefined });
    }
    this.#hooks.end();
  };

  /** There must be one. */
  #take(): T {
    const batch = this.#batches[0] as Batch;
    const event = batch.eventAt(batch.next) as T;
    batch.next += 1;
    this.#waiting -= 1;
    if (batch.next === batch.size) {
      this.#batches.shift();
    }
    return event;
  }
}
