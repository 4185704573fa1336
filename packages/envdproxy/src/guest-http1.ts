import { Readable, Writable } from "node:stream";
import type { Duplex } from "node:stream";
import type { GuestEvents, GuestLeg, GuestRequest } from "./guest-leg.ts";
import type { RawHeaders } from "./raw-headers.ts";
import { ResponseParser } from "./response-parser.ts";
import type { ParsedHead } from "./response-parser.ts";

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

/** Frames a body of unknown length. */
class ChunkedBody extends Writable {
  readonly #relay: Duplex;
  #trailers: RawHeaders = [];

  constructor(relay: Duplex) {
    super({ decodeStrings: true });
    this.#relay = relay;
    // A relay that broke says so itself.
    this.on("error", () => undefined);
  }

  /** Ends the body behind every piece that still waits for the relay. */
  finish(trailers: RawHeaders, done: () => void): void {
    this.#trailers = trailers;
    this.end(done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#relay.write(`0\r\n${fieldLines(this.#trailers)}\r\n`, "latin1", done);
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#send(chunk, done);
  }

  /** Pieces that had to wait go as one chunk: thousands of tiny ones would each take the relay's time. */
  override _writev(waiting: { readonly chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this.#send(Buffer.concat(waiting.map(({ chunk }) => chunk)), done);
  }

  #send(chunk: Buffer, done: (error?: Error | null) => void): void {
    const relay = this.#relay;
    if (chunk.length === 0) {
      // An empty chunk would be the last one.
      done();
      return;
    }
    relay.cork();
    relay.write(`${chunk.length.toString(16)}\r\n`, "latin1");
    relay.write(chunk);
    // Ready for more once the relay is, so that a slow guest slows its client down.
    relay.write("\r\n", "latin1", done);
    relay.uncork();
  }
}

function fieldLines(fields: RawHeaders): string {
  let lines = "";
  for (let i = 0; i + 1 < fields.length; i += 2) {
    lines += `${fields[i]}: ${fields[i + 1]}\r\n`;
  }
  return lines;
}

/**
 * Sends one request over a relay as HTTP/1.1 and reads its answer. Lean on purpose: Node's own client copies every piece
 * of a body.
 */
export function requestHttp1(relay: Duplex, head: GuestRequest, events: GuestEvents): GuestLeg {
  /** `waiting` for a head, `answering` with a body, or `over`. */
  let phase: "waiting" | "answering" | "over" = "waiting";
  let trailers: RawHeaders = [];
  let unheard = true;
  /** The whole request is on the relay. */
  let sent = head.empty;
  /** The guest said more than it was asked. */
  let spoke = false;
  /** The head of an answer that was not reported, with what was read of its body. */
  let unreported: ParsedHead | undefined;
  let gathered: Buffer[] = [];
  let body: GuestBody | undefined;

  /** After each read: an answer that is complete is told as a whole, any other becomes a stream. */
  function report(): void {
    const info = unreported;
    if (info === undefined) {
      body?.flush();
      return;
    }
    unreported = undefined;
    const pieces = gathered;
    gathered = [];
    if (phase === "over" && trailers.length === 0) {
      const [first] = pieces;
      events.onWhole({ ...info, bytes: pieces.length === 1 && first !== undefined ? first : Buffer.concat(pieces) });
      return;
    }
    const stream = new GuestBody(relay);
    body = stream;
    stream.on("error", () => undefined);
    events.onResponse({ ...info, body: stream, trailers: () => trailers });
    for (const piece of pieces) {
      stream.add(piece);
    }
    stream.flush();
    if (phase === "over") {
      stream.push(null);
    }
  }

  function broken(error: Error): void {
    const before = phase;
    phase = "over";
    relay.destroy();
    if (before === "waiting") {
      events.onFailure(error, unheard);
    } else if (before === "answering") {
      body?.destroy();
      events.onBroken();
    }
  }

  const parser = new ResponseParser({
    method: head.method,
    upgrade: head.upgrade,
    events: {
      onInform: (info) => {
        // 100 answers an expectation that was met on this side.
        if (info.status !== 100) {
          events.onInform(info.status, info.headers);
        }
      },
      onSwitch: (info, early) => {
        phase = "over";
        relay.pause();
        leave();
        events.onSwitch({ statusText: info.statusText, headers: info.headers, relay, early });
      },
      onHead: (info) => {
        phase = "answering";
        unreported = info;
      },
      onBody: (piece) => {
        if (body === undefined) {
          gathered.push(piece);
        } else {
          body.add(piece);
        }
      },
      onEnd: (last) => {
        trailers = last;
        phase = "over";
        body?.flush();
        body?.push(null);
      },
    },
  });

  function leave(): void {
    relay.off("data", onData);
    relay.off("end", onEnd);
    relay.off("error", broken);
    relay.off("close", onClose);
  }
  function onData(bytes: Buffer): void {
    unheard = false;
    if (phase === "over") {
      spoke = true;
      return;
    }
    try {
      parser.feed(bytes);
    } catch (error) {
      if (unreported !== undefined) {
        // Nothing was said to the client yet: better an error than half an answer.
        unreported = undefined;
        phase = "waiting";
      }
      broken(error instanceof Error ? error : new Error(String(error)));
      return;
    }
    report();
  }
  function onEnd(): void {
    if (phase !== "over" && !parser.end()) {
      broken(new Error("the guest closed without a complete answer"));
    }
  }
  function onClose(): void {
    broken(new Error("the relay closed without a complete answer"));
  }

  relay.on("error", broken);
  relay.on("data", onData);
  relay.on("end", onEnd);
  relay.on("close", onClose);
  if (relay.destroyed) {
    process.nextTick(onClose);
  } else if (relay.readableEnded) {
    process.nextTick(onEnd);
  }
  if (!head.empty) {
    // One packet for the head and whatever of the body is there already; it leaves within this turn either way.
    relay.cork();
    setImmediate(() => relay.uncork());
  }
  relay.write(`${head.method} ${head.path} HTTP/1.1\r\n${fieldLines(head.headers)}\r\n`, "latin1");

  const chunks = head.chunked ? new ChunkedBody(relay) : undefined;
  return {
    body: chunks ?? relay,
    // A body of known length ends with its last byte.
    endBody(last) {
      if (chunks === undefined) {
        sent = true;
      } else {
        chunks.finish(last, () => {
          sent = true;
        });
      }
    },
    get spoke() {
      return spoke || parser.surplus;
    },
    release() {
      const quiet = sent && !spoke && relay.writableLength === 0 && !relay.destroyed && !relay.readableEnded;
      if (!quiet || parser.keepMs === 0) {
        return 0;
      }
      leave();
      body?.release();
      return parser.keepMs;
    },
    destroy() {
      phase = "over";
      relay.destroy();
      body?.destroy();
    },
  };
}
