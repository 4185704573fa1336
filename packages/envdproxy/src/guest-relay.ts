import type { Duplex } from "node:stream";

/** Whoever the events of a relay are for at the moment. */
export interface RelayReader {
  onData(bytes: Buffer): void;
  /** The guest stopped sending. */
  onEnd(): void;
  /** It broke, or closed. Told at least once. */
  onClosed(error: Error | undefined): void;
}

/**
 * A connection to a guest port that carries one request after the other. Its stream is listened to once: listeners that
 * come and go with each request would cost more than the request itself.
 */
export class GuestRelay {
  readonly stream: Duplex;
  #reader: RelayReader | undefined;
  #listens = false;

  constructor(stream: Duplex) {
    this.stream = stream;
  }

  /** Whether nothing can be read from it any more. */
  get ended(): boolean {
    return this.stream.destroyed || this.stream.readableEnded;
  }

  /** Lets it flow to this reader, and to no other one. */
  listen(reader: RelayReader): void {
    this.#reader = reader;
    const { stream } = this;
    if (!this.#listens) {
      this.#listens = true;
      stream.on("error", this.#onClosed);
      stream.on("data", this.#onData);
      stream.on("end", this.#onEnd);
      stream.on("close", this.#onClosed);
    } else if (stream.isPaused()) {
      stream.resume();
    }
  }

  /** The stream, paused, with nobody listening to it. */
  detach(): Duplex {
    const { stream } = this;
    stream.pause();
    stream.off("error", this.#onClosed);
    stream.off("data", this.#onData);
    stream.off("end", this.#onEnd);
    stream.off("close", this.#onClosed);
    this.#reader = undefined;
    return stream;
  }

  destroy(): void {
    this.stream.destroy();
  }

  readonly #onData = (bytes: Buffer): void => this.#reader?.onData(bytes);
  readonly #onEnd = (): void => this.#reader?.onEnd();
  readonly #onClosed = (error?: Error): void => this.#reader?.onClosed(error);
}
