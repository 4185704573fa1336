import { pushField } from "./field-line.ts";
import { MAX_HEADER_BYTES } from "./limits.ts";
import type { RawHeaders } from "./raw-headers.ts";

/** Head of an HTTP/1 answer. */
export interface ParsedHead {
  readonly status: number;
  readonly statusText: string;
  readonly headers: RawHeaders;
  /** No body follows. */
  readonly empty: boolean;
}

/** What of a promised time is not counted on: its end may be on its way already. */
const KEEP_ALIVE_MARGIN_MS = 1000;

/** What a {@link ResponseParser} finds, in order. */
export interface ParserEvents {
  onInform(head: ParsedHead): void;
  /** The answer to a request for another protocol, and what came right behind it. Nothing follows. */
  onSwitch(head: ParsedHead, early: Buffer): void;
  onHead(head: ParsedHead): void;
  /** A piece of the body: a view of what was fed. */
  onBody(piece: Buffer): void;
  /** The answer is complete. Nothing follows. */
  onFinish(trailers: RawHeaders): void;
}

/** Bytes of a chunk's size line, with its extensions. */
const MAX_LINE_BYTES = 16 * 1024;

const NO_BYTES: Buffer = Buffer.alloc(0);
const NO_TRAILERS: RawHeaders = [];

const LF = 10;
const CR = 13;
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5][0-9]{2})(?: (.*))?$/;
const CHUNK_SIZE = /^([0-9a-fA-F]{1,13})[ \t]*(?:;.*)?$/s;

/** An answer that is no HTTP/1. The message is for the log. */
export class BrokenAnswer extends Error {}

type State = "head" | "sized" | "to the end" | "chunk size" | "chunk" | "chunk end" | "trailers" | "over";

/**
 * Reads one HTTP/1 answer from bytes as they come. Bodies are handed on without a copy, which Node's own parser makes.
 * Strict where a guest and a client could read lengths differently, generous where they could not: lines may end in a
 * bare line feed.
 */
export class ResponseParser {
  readonly #events: ParserEvents;
  readonly #method: string;
  readonly #upgrade: boolean;
  #state: State = "head";
  /** An unfinished head or line. */
  #held: Buffer = NO_BYTES;
  #heldBytes = 0;
  /** How much of it holds no end of a head. */
  #scanned = 0;
  #headBytes = 0;
  #left = 0;
  #trailers: string[] = [];
  #trailerBytes = 0;
  #keepMs = 0;
  #surplus = false;

  constructor(options: { readonly method: string; readonly upgrade: boolean; readonly events: ParserEvents }) {
    this.#method = options.method;
    this.#upgrade = options.upgrade;
    this.#events = options.events;
  }

  /** Takes the next bytes. Throws {@link BrokenAnswer}; nothing may be fed after that. */
  feed(bytes: Buffer): void {
    let input = bytes;
    if (this.#heldBytes > 0) {
      this.#hold(bytes);
      input = this.#held.subarray(0, this.#heldBytes);
    }
    let at = 0;
    while (at < input.length && this.#state !== "over") {
      const next = this.#step(input, at);
      if (next < 0) {
        if (input === bytes) {
          this.#hold(input.subarray(at));
        } else if (at > 0) {
          // Copied, since the held bytes may have been handed out as a body.
          this.#held = Buffer.from(input.subarray(at));
          this.#heldBytes = this.#held.length;
        }
        this.#checkHeld();
        return;
      }
      at = next;
      this.#scanned = 0;
    }
    if (at < input.length) {
      // Nobody asked for more: what it belongs to can not be told.
      this.#surplus = true;
      this.#keepMs = 0;
    }
    if (this.#heldBytes > 0) {
      this.#held = NO_BYTES;
      this.#heldBytes = 0;
    }
  }

  /**
   * How long the guest keeps the connection for another request, in milliseconds, as far as it says; 0 when the
   * connection can not carry one. To be asked when the answer is complete.
   */
  get keepMs(): number {
    return this.#state === "over" ? this.#keepMs : 0;
  }

  /** Whether bytes came behind the answer. */
  get surplus(): boolean {
    return this.#surplus;
  }

  /** The guest stops sending. True when its answer is complete by that. */
  end(): boolean {
    if (this.#state === "to the end") {
      this.#finish();
    }
    return this.#state === "over";
  }

  /** Moves on from `at`; negative when more bytes are needed. */
  #step(input: Buffer, at: number): number {
    const state = this.#state;
    if (state === "head") {
      return this.#readHead(input, at);
    }
    if (state === "to the end") {
      this.#events.onBody(at === 0 ? input : input.subarray(at));
      return input.length;
    }
    return state === "sized" || state === "chunk" ? this.#readBody(input, at) : this.#readLine(input, at);
  }

  #hold(bytes: Buffer): void {
    const needed = this.#heldBytes + bytes.length;
    if (needed > this.#held.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(needed, this.#held.length * 2));
      this.#held.copy(grown, 0, 0, this.#heldBytes);
      this.#held = grown;
    }
    bytes.copy(this.#held, this.#heldBytes);
    this.#heldBytes = needed;
  }

  #checkHeld(): void {
    const limit = this.#state === "head" ? MAX_HEADER_BYTES : MAX_LINE_BYTES;
    if (this.#heldBytes > limit) {
      throw new BrokenAnswer(`the guest's ${this.#state} is too long`);
    }
  }

  #readHead(input: Buffer, at: number): number {
    let from = at + this.#scanned;
    for (;;) {
      const lf = input.indexOf(LF, from);
      if (lf < 0) {
        this.#scanned = input.length - at;
        return -1;
      }
      const after = input[lf + 1] === CR ? lf + 2 : lf + 1;
      if (after >= input.length) {
        this.#scanned = lf - at;
        return -1;
      }
      if (input[after] === LF) {
        this.#parseHead(input.toString("latin1", at, lf), input, after + 1);
        return after + 1;
      }
      from = lf + 1;
    }
  }

  #parseHead(text: string, input: Buffer, end: number): void {
    // Interim answers count, since nothing else bounds how many there are.
    this.#headBytes += text.length;
    if (this.#headBytes > MAX_HEADER_BYTES) {
      throw new BrokenAnswer("the guest's head is too long");
    }
    let lineEnd = text.indexOf("\n");
    const match = STATUS_LINE.exec(withoutCr(lineEnd < 0 ? text : text.slice(0, lineEnd)));
    if (match === null) {
      throw new BrokenAnswer("the guest's status line is no HTTP/1");
    }
    const status = Number(match[2]);
    const headers: string[] = [];
    while (lineEnd >= 0) {
      const from = lineEnd + 1;
      lineEnd = text.indexOf("\n", from);
      addField(headers, withoutCr(text.slice(from, lineEnd < 0 ? text.length : lineEnd)));
    }
    const interim = status < 200;
    const empty = interim || this.#method === "HEAD" || status === 204 || status === 304;
    const head = { status, statusText: match[3] ?? "", headers, empty };
    if (status === 101) {
      if (!this.#upgrade) {
        throw new BrokenAnswer("the guest switched protocols unasked");
      }
      this.#state = "over";
      this.#events.onSwitch(head, Buffer.from(input.subarray(end)));
    } else if (interim) {
      this.#events.onInform(head);
    } else {
      this.#frame(head, match[1] === "1");
    }
  }

  /** Decides where the body ends (RFC 9112 §6.3), and refuses what two readers could decide differently. */
  #frame(head: ParsedHead, persistent: boolean): void {
    const { codings, lengths, length, keepMs } = connectionFields(head.headers);
    if (lengths > 1 || (length !== undefined && !/^[0-9]{1,15}$/.test(length))) {
      throw new BrokenAnswer("the guest's length is ambiguous");
    }
    if (codings.length > 1 || (codings.length === 1 && (codings[0] !== "chunked" || length !== undefined))) {
      throw new BrokenAnswer("the guest's transfer encoding is not supported");
    }
    this.#left = Number(length ?? 0);
    const bodyless = head.empty || (length !== undefined && this.#left === 0);
    if (bodyless) {
      this.#state = "over";
    } else if (codings.length === 1) {
      this.#state = "chunk size";
    } else {
      this.#state = length === undefined ? "to the end" : "sized";
    }
    // What is said of a body that must not come makes some servers send it.
    const clear = this.#method !== "HEAD" && (!head.empty || (codings.length === 0 && this.#left === 0));
    this.#keepMs = persistent && clear && this.#state !== "to the end" ? keepMs : 0;
    this.#events.onHead(head);
    if (bodyless) {
      this.#events.onFinish(NO_TRAILERS);
    }
  }

  #readBody(input: Buffer, at: number): number {
    const end = Math.min(input.length, at + this.#left);
    this.#left -= end - at;
    this.#events.onBody(at === 0 && end === input.length ? input : input.subarray(at, end));
    if (this.#left === 0) {
      if (this.#state === "chunk") {
        this.#state = "chunk end";
      } else {
        this.#finish();
      }
    }
    return end;
  }

  #readLine(input: Buffer, at: number): number {
    const lf = input.indexOf(LF, at);
    if (lf < 0) {
      return -1;
    }
    if (lf - at > MAX_LINE_BYTES) {
      throw new BrokenAnswer(`the guest's ${this.#state} is too long`);
    }
    const line = withoutCr(input.toString("latin1", at, lf));
    if (this.#state === "trailers") {
      this.#readTrailer(line);
    } else if (this.#state === "chunk end") {
      if (line !== "") {
        throw new BrokenAnswer("the guest's chunk is longer than it says");
      }
      this.#state = "chunk size";
    } else {
      const size = CHUNK_SIZE.exec(line)?.[1];
      if (size === undefined) {
        throw new BrokenAnswer("the guest's chunk has no size");
      }
      this.#left = Number.parseInt(size, 16);
      this.#state = this.#left === 0 ? "trailers" : "chunk";
    }
    return lf + 1;
  }

  #readTrailer(line: string): void {
    if (line === "") {
      this.#finish();
      return;
    }
    this.#trailerBytes += line.length;
    if (this.#trailerBytes > MAX_HEADER_BYTES) {
      throw new BrokenAnswer("the guest's trailers are too long");
    }
    addField(this.#trailers, line);
  }

  #finish(): void {
    this.#state = "over";
    this.#events.onFinish(this.#trailers);
  }
}

/** Fields that say how long the answer and its connection last, in one pass. */
function connectionFields(headers: RawHeaders): {
  readonly codings: readonly string[];
  readonly lengths: number;
  readonly length: string | undefined;
  /** How long the guest keeps the connection; `Infinity` when it does not say. */
  readonly keepMs: number;
} {
  const codings: string[] = [];
  let lengths = 0;
  let length: string | undefined;
  let keepMs = Number.POSITIVE_INFINITY;
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const field = headers[i] ?? "";
    const value = headers[i + 1] ?? "";
    // Few fields have these lengths: the others are not looked at any closer.
    if (field.length === 14 && field.toLowerCase() === "content-length") {
      lengths += 1;
      length ??= value;
    } else if (field.length === 17 && field.toLowerCase() === "transfer-encoding") {
      codings.push(...listed(value).filter((coding) => coding !== "identity"));
    } else if (field.length === 10) {
      const name = field.toLowerCase();
      if (name === "connection" && listed(value).includes("close")) {
        keepMs = 0;
      } else if (name === "keep-alive") {
        keepMs = Math.min(keepMs, promisedMs(value));
      }
    }
  }
  return { codings, lengths, length, keepMs };
}

function listed(value: string): string[] {
  return value
    .split(",")
    .map((word) => word.trim().toLowerCase())
    .filter((word) => word !== "");
}

/** What `Keep-Alive: timeout=5, max=100` lets one count on. */
function promisedMs(value: string): number {
  const timeout = /(?:^|[,;\s])timeout\s*=\s*"?(\d{1,9})/i.exec(value)?.[1];
  const max = /(?:^|[,;\s])max\s*=\s*"?(\d{1,9})/i.exec(value)?.[1];
  if (max !== undefined && Number(max) === 0) {
    return 0;
  }
  return timeout === undefined ? Number.POSITIVE_INFINITY : Math.max(0, Number(timeout) * 1000 - KEEP_ALIVE_MARGIN_MS);
}

function withoutCr(line: string): string {
  return line.endsWith("\r") ? line.slice(0, -1) : line;
}

function addField(fields: string[], line: string): void {
  if (!pushField(fields, line)) {
    throw new BrokenAnswer("the guest's header is broken");
  }
}
