import { Buffer } from "node:buffer";
import { KubeError } from "./errors.ts";

const NEWLINE = 0x0a;

/** Far above any object that a cluster can store, far below what a string can hold. */
const LINE_CAP = 128 * 1024 * 1024;

/**
 * Cuts a stream of bytes into lines. A line is decoded as a whole, so that a character whose bytes come in two chunks
 * stays one. Empty lines are left out.
 */
export class LineSplitter {
  readonly #cap: number;
  #parts: Uint8Array[] = [];
  #held = 0;

  /** @param cap the longest line, in bytes */
  constructor(cap: number = LINE_CAP) {
    this.#cap = cap;
  }

  /**
   * The lines that end in this chunk, which may be empty.
   * @throws KubeError `bad_reply` for a line over the cap.
   */
  push(chunk: Uint8Array): string[] {
    const lines: string[] = [];
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      this.#hold(chunk.subarray(start, end));
      this.#take(lines);
      start = end + 1;
    }
    this.#hold(chunk.subarray(start));
    return lines;
  }

  /** What is left when the stream ends: a line without its end, or nothing. */
  end(): string | undefined {
    const lines: string[] = [];
    this.#take(lines);
    return lines[0];
  }

  #hold(part: Uint8Array): void {
    if (part.length > 0) {
      this.#held += part.length;
      if (this.#held > this.#cap) {
        throw new KubeError("bad_reply", `a line of a watch is over ${this.#cap} bytes`);
      }
      this.#parts.push(part);
    }
  }

  #take(lines: string[]): void {
    if (this.#held > 0) {
      const line = Buffer.concat(this.#parts, this.#held).toString("utf8").trim();
      this.#parts = [];
      this.#held = 0;
      if (line !== "") {
        lines.push(line);
      }
    }
  }
}
