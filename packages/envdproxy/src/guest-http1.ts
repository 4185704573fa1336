import { Readable } from "node:stream";
import type { Duplex, Writable } from "node:stream";
import { ChunkedBody, writeWhole } from "./chunked-body.ts";
import { fieldLines } from "./field-line.ts";
import type { GuestEvents, GuestLeg, GuestRequest } from "./guest-leg.ts";
import type { GuestRelay, RelayReader } from "./guest-relay.ts";
import type { RawHeaders } from "./raw-headers.ts";
import { ResponseParser } from "./response-parser.ts";
import type { ParsedHead, ParserEvents } from "./response-parser.ts";

/** Pieces below this are joined: each of them costs far more memory than it holds while a client does not read. */
const SMALL_BYTES = 1024;

/** The guest's body; asks for more by letting the relay flow. */
class GuestBody extends Readable {
  #relay: Duplex | undefined;
  #small: Buffer[] = [];

  constructor(relay: Duplex) {
    // Twice what a socket reads at a time, so that the relay need not stop and go for every piece.
    super({ highWaterMark: 128 * 1024 });
    this.#relay = relay;
  }

  override _read(): void {
    this.#relay?.resume();
  }

  /** Leaves the relay alone from now on. */
  release(): void {
    this.#relay = undefined;
  }

  /** Takes a piece. Small ones wait for {@link flush}. */
  add(piece: Buffer): void {
    if (piece.length < SMALL_BYTES) {
      this.#small.push(piece);
      return;
    }
    this.flush();
    this.#give(piece);
  }

  /** To be called at the end of what one read brought. */
  flush(): void {
    const [first] = this.#small;
    if (first !== undefined) {
      const joined = this.#small.length === 1 ? first : Buffer.concat(this.#small);
      this.#small = [];
      this.#give(joined);
    }
  }

  #give(piece: Buffer): void {
    if (!this.push(piece)) {
      this.#relay?.pause();
    }
  }
}

/**
 * Sends one request over a relay as HTTP/1.1 and reads its answer. Lean on purpose: Node's own client copies every piece
 * of a body.
 */
export function requestHttp1(relay: GuestRelay, head: GuestRequest, events: GuestEvents): GuestLeg {
  return new Http1Leg(relay, head, events);
}

const NO_PIECES: Buffer[] = [];

class Http1Leg implements GuestLeg, RelayReader, ParserEvents {
  readonly #relay: GuestRelay;
  readonly #events: GuestEvents;
  readonly #parser: ResponseParser;
  readonly #chunks: ChunkedBody | undefined;
  /** `waiting` for a head, `answering` with a body, or `over`. */
  #phase: "waiting" | "answering" | "over" = "waiting";
  #trailers: RawHeaders = [];
  #unheard = true;
  /** The whole request is on the relay. */
  #sent: boolean;
  /** The guest said more than it was asked. */
  #spoke = false;
  /** The head of an answer that was not reported, with what was read of its body. */
  #unreported: ParsedHead | undefined;
  #gathered = NO_PIECES;
  #body: GuestBody | undefined;

  constructor(relay: GuestRelay, head: GuestRequest, events: GuestEvents) {
    const { stream } = relay;
    this.#relay = relay;
    this.#events = events;
    this.#sent = head.empty || head.whole !== undefined;
    this.#parser = new ResponseParser({ method: head.method, upgrade: head.upgrade, events: this });
    relay.listen(this);
    if (stream.destroyed) {
      process.nextTick(() => this.onClosed(undefined));
    } else if (stream.readableEnded) {
      process.nextTick(() => this.onEnd());
    }
    const text = `${head.method} ${head.path} HTTP/1.1\r\n${fieldLines(head.headers)}\r\n`;
    if (head.whole !== undefined) {
      writeWhole(stream, text, head.whole);
    } else {
      if (!head.empty) {
        // One packet for the head and whatever of the body is there already; it leaves within this turn either way.
        stream.cork();
        setImmediate(() => stream.uncork());
      }
      stream.write(text, "latin1");
    }
    this.#chunks = head.chunked ? new ChunkedBody(stream) : undefined;
  }

  get body(): Writable {
    return this.#chunks ?? this.#relay.stream;
  }

  /** A body of known length ends with its last byte. */
  endBody(trailers: RawHeaders): void {
    if (this.#chunks === undefined) {
      this.#sent = true;
    } else {
      this.#chunks.finish(trailers, () => {
        this.#sent = true;
      });
    }
  }

  get spoke(): boolean {
    return this.#spoke || this.#parser.surplus;
  }

  release(): number {
    const quiet = this.#sent && !this.#spoke && this.#relay.stream.writableLength === 0 && !this.#relay.ended;
    if (!quiet) {
      return 0;
    }
    this.#body?.release();
    return this.#parser.keepMs;
  }

  destroy(): void {
    this.#phase = "over";
    this.#relay.destroy();
    this.#body?.destroy();
  }

  onData(bytes: Buffer): void {
    this.#unheard = false;
    if (this.#phase === "over") {
      this.#spoke = true;
      return;
    }
    try {
      this.#parser.feed(bytes);
    } catch (error) {
      if (this.#unreported !== undefined) {
        // Nothing was said to the client yet: better an error than half an answer.
        this.#unreported = undefined;
        this.#phase = "waiting";
      }
      this.#break(error instanceof Error ? error : new Error(String(error)));
      return;
    }
    this.#report();
  }

  onEnd(): void {
    if (this.#phase !== "over" && !this.#parser.end()) {
      this.#break(new Error("the guest closed without a complete answer"));
    }
  }

  onClosed(error: Error | undefined): void {
    if (this.#phase !== "over") {
      this.#break(error ?? new Error("the relay closed without a complete answer"));
    }
  }

  onInform({ status, headers }: ParsedHead): void {
    // 100 answers an expectation that was met on this side.
    if (status !== 100) {
      this.#events.onInform(status, headers);
    }
  }

  onSwitch({ statusText, headers }: ParsedHead, early: Buffer): void {
    this.#phase = "over";
    this.#events.onSwitch({ statusText, headers, relay: this.#relay.detach(), early });
  }

  onHead(head: ParsedHead): void {
    this.#phase = "answering";
    this.#unreported = head;
  }

  onBody(piece: Buffer): void {
    if (this.#body !== undefined) {
      this.#body.add(piece);
    } else if (this.#gathered === NO_PIECES) {
      this.#gathered = [piece];
    } else {
      this.#gathered.push(piece);
    }
  }

  /** The answer is complete. */
  onFinish(trailers: RawHeaders): void {
    this.#trailers = trailers;
    this.#phase = "over";
    this.#body?.flush();
    this.#body?.push(null);
  }

  /** After each read: an answer that is complete is told as a whole, any other becomes a stream. */
  #report(): void {
    const head = this.#unreported;
    if (head === undefined) {
      this.#body?.flush();
      return;
    }
    this.#unreported = undefined;
    const pieces = this.#gathered;
    this.#gathered = NO_PIECES;
    if (this.#phase === "over" && this.#trailers.length === 0) {
      const [first] = pieces;
      this.#events.onWhole(head, pieces.length === 1 && first !== undefined ? first : Buffer.concat(pieces));
      return;
    }
    const body = new GuestBody(this.#relay.stream);
    this.#body = body;
    body.on("error", () => undefined);
    this.#events.onResponse({ ...head, body, trailers: () => this.#trailers });
    for (const piece of pieces) {
      body.add(piece);
    }
    body.flush();
    if (this.#phase === "over") {
      body.push(null);
    }
  }

  #break(error: Error): void {
    const before = this.#phase;
    this.#phase = "over";
    this.#relay.destroy();
    if (before === "waiting") {
      this.#events.onFailure(error, this.#unheard);
    } else if (before === "answering") {
      this.#body?.destroy();
      this.#events.onBroken();
    }
  }
}
