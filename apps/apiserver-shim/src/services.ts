/** What runs side by side: a failure of one drains the others. */
export class Services implements AsyncDisposable {
  readonly #signal: AbortSignal;
  readonly #drain = new AbortController();
  readonly #life = new AbortController();
  readonly #running: Promise<void>[] = [];
  readonly #onSignal = (): void => this.#drain.abort();
  #failure: { readonly error: unknown } | undefined;

  /** @param signal begins the drain */
  constructor(signal: AbortSignal) {
    this.#signal = signal;
    signal.addEventListener("abort", this.#onSignal, { once: true });
    if (signal.aborted) this.#onSignal();
  }

  /** Aborts when the drain begins: on the signal, or because something failed. */
  get draining(): AbortSignal {
    return this.#drain.signal;
  }

  /** Aborts when everything has drained. */
  get life(): AbortSignal {
    return this.#life.signal;
  }

  /** Begins something that goes on until everything has drained; a drain that begins before it is up ends it. */
  async start<T>(begin: (life: AbortSignal) => Promise<T>): Promise<T> {
    const { signal } = this.#drain;
    const end = (): void => this.#life.abort(signal.reason);
    signal.addEventListener("abort", end, { once: true });
    if (signal.aborted) end();
    try {
      return await begin(this.#life.signal);
    } finally {
      signal.removeEventListener("abort", end);
    }
  }

  /** Takes something in that runs until the drain. If it ends before, it has failed. */
  add(what: string, service: Promise<void>): void {
    this.#running.push(this.#watch(what, service));
  }

  /** Resolves when all have ended. @throws what the first one failed with */
  async done(): Promise<void> {
    await Promise.all(this.#running);
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#signal.removeEventListener("abort", this.#onSignal);
    this.#drain.abort();
    await Promise.all(this.#running);
    this.#life.abort();
  }

  async #watch(what: string, service: Promise<void>): Promise<void> {
    try {
      await service;
      if (!this.draining.aborted) throw new Error(`the ${what} ended by itself`);
    } catch (error) {
      this.#failure ??= { error };
      this.#drain.abort();
    }
  }
}
