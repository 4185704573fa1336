import { Writable } from "node:stream";
import type { Duplex } from "node:stream";
import { fieldLines } from "./field-line.ts";
import type { RawHeaders } from "./raw-headers.ts";

/** Frames a body of unknown length on its way into a connection. */
export class ChunkedBody extends Writable {
  readonly #connection: Duplex;
  #trailers: RawHeaders = [];

  constructor(connection: Duplex) {
    super({ decodeStrings: true });
    this.#connection = connection;
    // A connection that broke says so itself.
    this.on("error", () => undefined);
  }

  /** Ends the body behind every piece that still waits for the relay. */
  finish(trailers: RawHeaders, done: () => void): void {
    this.#trailers = trailers;
    this.end(done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#connection.write(`0\r\n${fieldLines(this.#trailers)}\r\n`, "latin1", done);
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#send(chunk, done);
  }

  /** Pieces that had to wait go as one chunk: thousands of tiny ones would each take its time. */
  override _writev(waiting: { readonly chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this.#send(Buffer.concat(waiting.map(({ chunk }) => chunk)), done);
  }

  #send(chunk: Buffer, done: (error?: Error | null) => void): void {
    const connection = this.#connection;
    if (chunk.length === 0) {
      // An empty chunk would be the last one.
      done();
      return;
    }
    connection.cork();
    connection.write(`${chunk.length.toString(16)}\r\n`, "latin1");
    connection.write(chunk);
    // Ready for more once the connection is, so that a slow reader slows the sender down.
    connection.write("\r\n", "latin1", done);
    connection.uncork();
  }
}

/** Bodies up to this size are written as one string with their head, which costs less than a list of two pieces. */
export const ONE_STRING_BYTES = 4096;

/** Writes a message that is all there, in one packet where it fits. */
export function writeWhole(connection: Duplex, head: string, body: Buffer, done?: () => void): void {
  if (body.length <= ONE_STRING_BYTES) {
    connection.write(head + body.toString("latin1"), "latin1", done);
    return;
  }
  connection.cork();
  connection.write(head, "latin1");
  connection.write(body, done);
  connection.uncork();
}
