/** A request as a guest saw it. */
export interface SeenRequest {
  readonly method: string;
  readonly target: string;
  /** Name, value, name, value…, as they were written. */
  readonly headers: readonly string[];
  /** Everything up to the blank line. */
  readonly head: string;
  readonly body: Buffer;
  readonly trailers: readonly string[];
  /** Whether all of it came. */
  readonly complete: boolean;
}

/** The same while it is coming. */
type Coming = { -readonly [Key in keyof SeenRequest]: SeenRequest[Key] } & { pieces: Buffer[] };

/** What a {@link RequestReader} tells. */
export interface RequestEvents {
  onHead(request: SeenRequest): void;
  onEnd(request: SeenRequest): void;
}

const REQUEST_LINE = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+) ([!-~\x80-\xff]+) HTTP\/1\.1$/;
const FIELD = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*$/;
/** Bodies beyond this are counted by whoever wants to, not kept. */
const KEPT_BODY = 16 << 20;

/** First value of a field, by its name in lower case. */
export function fieldOf(headers: readonly string[], name: string): string | undefined {
  const at = headers.findIndex((field, index) => index % 2 === 0 && field.toLowerCase() === name);
  return at < 0 ? undefined : headers[at + 1];
}

/** All values of a field, by its name in lower case. */
export function fieldsOf(headers: readonly string[], name: string): string[] {
  return headers.filter((_value, index) => index % 2 === 1 && headers[index - 1]?.toLowerCase() === name);
}

/**
 * Reads requests by the letter of RFC 9112, and nothing that two readers could take for different things: any leniency
 * here would hide what a proxy lets through.
 */
export class RequestReader {
  readonly #events: RequestEvents;
  #held: Buffer = Buffer.alloc(0);
  #state: "head" | "sized" | "size" | "chunk" | "chunk end" | "trailers" = "head";
  #left = 0;
  #request: Coming | undefined;

  constructor(events: RequestEvents) {
    this.#events = events;
  }

  /** The request that has begun and not ended. */
  get unfinished(): SeenRequest | undefined {
    return this.#request;
  }

  /** Bytes that are no head yet. */
  get rest(): Buffer {
    return this.#held;
  }

  /** Takes the next bytes. Throws for what is no request. */
  feed(bytes: Buffer): void {
    this.#held = this.#held.length === 0 ? bytes : Buffer.concat([this.#held, bytes]);
    for (;;) {
      const before = this.#held.length;
      const state = this.#state;
      if (before === 0 || (!this.#step() && this.#held.length === before && this.#state === state)) {
        return;
      }
    }
  }

  #take(length: number): Buffer {
    const taken = this.#held.subarray(0, length);
    this.#held = this.#held.subarray(length);
    return taken;
  }

  #line(end = "\r\n"): string | undefined {
    const at = this.#held.indexOf(end);
    if (at < 0) {
      return undefined;
    }
    const line = this.#take(at + end.length).toString("latin1", 0, at);
    return line;
  }

  /** Answers whether it got further. */
  #step(): boolean {
    if (this.#state === "head") {
      return this.#readHead();
    }
    const request = this.#request as Coming;
    if (this.#state === "sized" || this.#state === "chunk") {
      const piece = this.#take(Math.min(this.#left, this.#held.length));
      this.#left -= piece.length;
      if (request.pieces.length * piece.length < KEPT_BODY) {
        request.pieces.push(piece);
      }
      if (this.#left === 0) {
        if (this.#state === "sized") {
          this.#finish();
        } else {
          this.#state = "chunk end";
        }
      }
      return piece.length > 0;
    }
    const line = this.#line();
    if (line === undefined) {
      return false;
    }
    if (this.#state === "chunk end") {
      must(line === "", `a chunk is longer than it says: ${JSON.stringify(line)}`);
      this.#state = "size";
    } else if (this.#state === "size") {
      must(/^[0-9a-fA-F]{1,8}$/.test(line), `a chunk's size is ${JSON.stringify(line)}`);
      this.#left = Number.parseInt(line, 16);
      this.#state = this.#left === 0 ? "trailers" : "chunk";
    } else if (line === "") {
      this.#finish();
    } else {
      const [, name = "", value = ""] = FIELD.exec(line) ?? [];
      must(name !== "", `a trailer is ${JSON.stringify(line)}`);
      request.trailers = [...request.trailers, name, value];
    }
    return true;
  }

  #readHead(): boolean {
    const head = this.#line("\r\n\r\n");
    if (head === undefined) {
      return false;
    }
    const [first = "", ...lines] = head.split("\r\n");
    const [, method = "", target = ""] = REQUEST_LINE.exec(first) ?? [];
    must(method !== "", `a request line is ${JSON.stringify(first.slice(0, 200))}`);
    const headers: string[] = [];
    for (const line of lines) {
      const [, name = "", value = ""] = FIELD.exec(line) ?? [];
      must(name !== "", `a header is ${JSON.stringify(line.slice(0, 200))}`);
      headers.push(name, value);
    }
    const lengths = fieldsOf(headers, "content-length");
    const codings = fieldsOf(headers, "transfer-encoding");
    must(fieldsOf(headers, "host").length === 1, "there is not exactly one Host");
    must(lengths.length + codings.length <= 1, `a body is framed by ${[...lengths, ...codings].join(" and ")}`);
    must(
      codings.every((coding) => coding === "chunked") && lengths.every((length) => /^[0-9]{1,15}$/.test(length)),
      "framing",
    );
    const request: Coming = {
      method,
      target,
      headers,
      head,
      body: Buffer.alloc(0),
      trailers: [],
      complete: false,
      pieces: [],
    };
    this.#request = request;
    this.#left = Number(lengths[0] ?? 0);
    this.#state = codings.length > 0 ? "size" : "sized";
    this.#events.onHead(request);
    if (this.#state === "sized" && this.#left === 0) {
      this.#finish();
    }
    return true;
  }

  #finish(): void {
    const request = this.#request as Coming;
    request.body = Buffer.concat(request.pieces);
    request.pieces = [];
    request.complete = true;
    this.#request = undefined;
    this.#state = "head";
    this.#events.onEnd(request);
  }
}

function must(condition: boolean, what: string): void {
  if (!condition) {
    throw new Error(what);
  }
}
