import { errorCapBytes, headCapBytes, replyCapBytes } from "./caps.ts";
import type { ReplyBuffer } from "./reply-buffer.ts";

const LINE_CAP = 1024;
const LF = 0x0a;

/** A reply that is not HTTP/1.1, or over its cap. */
export class ReplyError extends Error {
  override readonly name = "ReplyError";
}

type State = "head" | "sized" | "unsized" | "chunk-size" | "chunk" | "chunk-end" | "trailer" | "done";

/** Reads one HTTP/1.1 reply to a GET out of pieces of any size, and puts the body into a buffer. */
export class ReplyParser {
  readonly #into: ReplyBuffer;
  #state: State = "head";
  #head = "";
  #line = "";
  #left = 0;
  #cap = 0;
  #keepAlive = true;
  /** Status of the final reply, once its head is complete. */
  status = 0;

  constructor(into: ReplyBuffer) {
    this.#into = into;
    into.clear();
  }

  get done(): boolean {
    return this.#state === "done";
  }

  /** Whether the connection may carry another request. */
  get reusable(): boolean {
    return this.done && this.#keepAlive;
  }

  /** Takes `chunk[0..length]`. @throws ReplyError */
  push(chunk: Buffer, length: number): void {
    let at = 0;
    while (at < length) {
      switch (this.#state) {
        case "head":
          at = this.#headLine(chunk, at, length);
          break;
        case "sized":
        case "chunk":
        case "unsized":
          at = this.#body(chunk, at, length);
          break;
        case "chunk-size":
        case "chunk-end":
        case "trailer":
          at = this.#frameLine(chunk, at, length);
          break;
        case "done":
          // Nobody asked for these bytes.
          this.#keepAlive = false;
          return;
      }
    }
  }

  /** The connection has ended. @throws ReplyError when the reply was not complete. */
  end(): void {
    this.#keepAlive = false;
    if (this.#state === "unsized") {
      this.#state = "done";
    } else if (this.#state !== "done") {
      throw new ReplyError("the connection was closed inside the reply");
    }
  }

  #headLine(chunk: Buffer, at: number, length: number): number {
    const end = indexOfLf(chunk, at, length);
    this.#line += chunk.toString("latin1", at, end);
    if (this.#head.length + this.#line.length > headCapBytes) {
      throw new ReplyError(`the reply head is over ${headCapBytes} bytes`);
    }
    if (this.#line.endsWith("\n")) {
      const line = this.#line;
      this.#line = "";
      this.#head += line;
      if (line === "\r\n" || line === "\n") {
        const head = this.#head;
        this.#head = "";
        this.#onHead(head);
      }
    }
    return end;
  }

  #onHead(head: string): void {
    const start = /^HTTP\/1\.([01]) ([1-9][0-9]{2})[ \r\n]/.exec(head);
    if (start === null) {
      throw new ReplyError("the reply is not HTTP/1");
    }
    const status = Number(start[2]);
    if (status < 200) {
      if (status === 101) {
        throw new ReplyError("the reply switches protocols");
      }
      return;
    }
    this.status = status;
    this.#cap = status < 300 ? replyCapBytes : errorCapBytes;
    this.#keepAlive = start[1] === "1" && !/(?:^|\n)connection:[^\n]*\bclose\b/i.test(head);
    const encodings = fieldValues(head, "transfer-encoding");
    const lengths = new Set(fieldValues(head, "content-length"));
    if (encodings.length > 0) {
      if (encodings.join(",").toLowerCase() !== "chunked") {
        throw new ReplyError("the reply has an unknown transfer encoding");
      }
      this.#keepAlive &&= lengths.size === 0;
      this.#state = "chunk-size";
      return;
    }
    const [length] = lengths;
    if (lengths.size > 1 || (length !== undefined && !/^[0-9]{1,15}$/.test(length))) {
      throw new ReplyError("the reply has an unreadable length");
    }
    if (status === 204 || status === 304 || Number(length) === 0) {
      this.#state = "done";
      return;
    }
    if (length === undefined) {
      this.#state = "unsized";
      return;
    }
    this.#left = Number(length);
    this.#state = "sized";
    if (status < 300) {
      this.#checkCap(this.#left);
      this.#into.reserve(this.#left);
    }
  }

  #body(chunk: Buffer, at: number, length: number): number {
    const end = this.#state === "unsized" ? length : Math.min(length, at + this.#left);
    this.#checkCap(this.#into.size + end - at);
    const room = this.#cap - this.#into.size;
    this.#into.append(chunk, at, Math.min(end, at + room));
    if (end - at > room) {
      // What came of an error's body is enough.
      this.#keepAlive = false;
      this.#state = "done";
      return length;
    }
    if (this.#state !== "unsized") {
      this.#left -= end - at;
      if (this.#left === 0) {
        this.#state = this.#state === "sized" ? "done" : "chunk-end";
      }
    }
    return end;
  }

  #checkCap(size: number): void {
    if (size > this.#cap && this.status < 300) {
      throw new ReplyError(`the reply is over the cap of ${this.#cap} bytes`);
    }
  }

  #frameLine(chunk: Buffer, at: number, length: number): number {
    const end = indexOfLf(chunk, at, length);
    this.#line += chunk.toString("latin1", at, end);
    if (this.#line.length > LINE_CAP) {
      throw new ReplyError("the reply has an endless chunk head");
    }
    if (this.#line.endsWith("\n")) {
      const line = this.#line.trimEnd();
      this.#line = "";
      this.#onFrameLine(line);
    }
    return end;
  }

  #onFrameLine(line: string): void {
    if (this.#state === "chunk-size") {
      const size = /^([0-9a-f]{1,8})[ \t]*(?:;|$)/i.exec(line)?.[1];
      if (size === undefined) {
        throw new ReplyError("the reply has an unreadable chunk");
      }
      this.#left = Number.parseInt(size, 16);
      this.#state = this.#left === 0 ? "trailer" : "chunk";
    } else if (this.#state === "chunk-end") {
      if (line !== "") {
        throw new ReplyError("the reply has an unreadable chunk");
      }
      this.#state = "chunk-size";
    } else if (line === "") {
      this.#state = "done";
    }
  }
}

/** Just behind the next line end, or `length`. */
function indexOfLf(chunk: Buffer, at: number, length: number): number {
  const found = chunk.indexOf(LF, at);
  return found === -1 || found >= length ? length : found + 1;
}

function fieldValues(head: string, name: string): string[] {
  return [...head.matchAll(new RegExp(`\\n${name}:([^\\n]*)`, "gi"))].map(([, value]) => (value ?? "").trim());
}
