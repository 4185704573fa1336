/** A body of a watch that the test writes. */
export class FakeWatch implements AsyncIterable<Uint8Array> {
  readonly #chunks: Uint8Array[] = [];
  #wake: () => void = () => undefined;
  #failure: Error | undefined;

  constructor(signal: AbortSignal | undefined) {
    signal?.addEventListener("abort", () => this.fail(new Error("aborted", { cause: signal.reason })), { once: true });
  }

  send(text: string): void {
    this.#chunks.push(new TextEncoder().encode(text));
    this.#wake();
  }

  fail(error: Error): void {
    this.#failure = error;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (;;) {
      yield* this.#chunks.splice(0);
      if (this.#failure !== undefined) {
        throw this.#failure;
      }
      if (this.#chunks.length === 0) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  }
}
