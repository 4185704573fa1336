import { constants } from "node:http2";
import type { IncomingHttpHeaders, OutgoingHttpHeaders, ServerHttp2Stream } from "node:http2";
import type { Writable } from "node:stream";
import type { Framing } from "./forward-headers.ts";
import { MAX_HTTP2_FIELD_BYTES, MAX_HTTP2_FIELDS, MAX_HTTP2_HEAD_BYTES } from "./limits.ts";
import { LINGER_MS, peerAddress } from "./inbound.ts";
import type { Inbound, ResponseHead } from "./inbound.ts";
import { firstValue, http2Fields } from "./raw-headers.ts";
import type { RawHeaders } from "./raw-headers.ts";

/** Lower-case names and joined values back to the flat form; pseudo fields stay out. */
export function flatFields(fields: IncomingHttpHeaders): string[] {
  const flat: string[] = [];
  for (const [name, value] of Object.entries(fields)) {
    if (!name.startsWith(":") && value !== undefined) {
      for (const one of Array.isArray(value) ? value : [value]) {
        flat.push(name, one);
      }
    }
  }
  return flat;
}

function fits(headers: RawHeaders): boolean {
  let bytes = 0;
  for (const text of headers) {
    if (text.length > MAX_HTTP2_FIELD_BYTES) {
      return false;
    }
    bytes += text.length;
  }
  return bytes <= MAX_HTTP2_HEAD_BYTES && headers.length / 2 <= MAX_HTTP2_FIELDS;
}

function framingOf(stream: ServerHttp2Stream, headers: RawHeaders): Framing {
  if (stream.endAfterHeaders) {
    return { kind: "none" };
  }
  const length = firstValue(headers, "content-length");
  return length === undefined ? { kind: "chunked" } : { kind: "length", length };
}

/** Resets a stream, so that its peer does not take what arrived so far for all there is. */
export function resetStream(stream: ServerHttp2Stream): void {
  if (!stream.destroyed) {
    stream.close(constants.NGHTTP2_INTERNAL_ERROR);
  }
}

/** An exchange over HTTP/2. */
export class Http2Inbound implements Inbound {
  readonly method: string;
  readonly target: string;
  readonly authority: string;
  readonly headers: RawHeaders;
  readonly framing: Framing;
  readonly wellFormed = true;
  readonly secure: boolean;
  readonly peer: string;
  readonly body: ServerHttp2Stream;
  readonly expectsContinue: boolean;
  readonly #stream: ServerHttp2Stream;
  #trailers: RawHeaders = [];
  #outTrailers: RawHeaders | undefined;
  #last: Buffer | undefined;
  #gone = false;

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, rawHeaders: RawHeaders) {
    this.method = headers[":method"] ?? "GET";
    this.target = headers[":path"] ?? "";
    this.authority = headers[":authority"] ?? headers.host ?? "";
    this.headers = rawHeaders;
    this.framing = framingOf(stream, rawHeaders);
    this.secure = stream.session?.encrypted ?? false;
    this.peer = peerAddress(stream.session?.socket.remoteAddress);
    this.body = stream;
    this.expectsContinue = headers.expect?.trim().toLowerCase() === "100-continue";
    this.#stream = stream;
    stream.on("error", () => undefined);
    stream.on("trailers", (fields: IncomingHttpHeaders) => {
      this.#trailers = flatFields(fields);
    });
    stream.once("close", () => {
      // A reset ends the writable side as well, so only an answer that was finished here counts as one.
      this.#gone = this.#outTrailers === undefined;
    });
  }

  get gone(): boolean {
    return this.#gone;
  }

  onGone(listener: () => void): void {
    this.#stream.once("close", () => {
      if (this.#gone) {
        listener();
      }
    });
  }

  onClose(listener: () => void): void {
    this.#stream.once("close", listener);
  }

  invite(): void {
    if (this.expectsContinue) {
      this.inform(constants.HTTP_STATUS_CONTINUE, []);
    }
  }

  inform(status: number, headers: RawHeaders): void {
    if (fits(headers) && !this.#stream.headersSent && !this.#stream.closed && !this.#stream.destroyed) {
      this.#stream.additionalHeaders({ ":status": status, ...http2Fields(headers) });
    }
  }

  trailers(): RawHeaders {
    return this.#trailers;
  }

  respond(head: ResponseHead): Writable {
    const stream = this.#stream;
    if (stream.closed || stream.destroyed) {
      return stream;
    }
    if (!fits(head.headers)) {
      throw new RangeError("the answer's head is too long for HTTP/2");
    }
    const fields: OutgoingHttpHeaders = { ...http2Fields(head.headers), ":status": head.status };
    if (head.empty) {
      stream.respond(fields, { endStream: true });
      return stream;
    }
    stream.once("wantTrailers", () => {
      // Closing a stream ends its writable side first; only a complete answer may be marked as ended.
      if (this.#outTrailers !== undefined) {
        stream.sendTrailers(http2Fields(this.#outTrailers));
      }
    });
    stream.respond(fields, { waitForTrailers: true });
    return stream;
  }

  respondWhole(head: ResponseHead, body: Buffer): void {
    const stream = this.#stream;
    if (!stream.closed && !stream.destroyed) {
      if (!fits(head.headers)) {
        throw new RangeError("the answer's head is too long for HTTP/2");
      }
      const silent = head.empty || body.length === 0;
      stream.respond({ ...http2Fields(head.headers), ":status": head.status }, { endStream: silent });
      // The end travels with the last bytes.
      this.#last = silent ? undefined : body;
    }
    this.finish([]);
  }

  finish(trailers: RawHeaders): void {
    const stream = this.#stream;
    if (!fits(trailers)) {
      // Clients would drop the connection for them, and every other stream with it.
      this.cut();
      return;
    }
    this.#outTrailers = trailers;
    stream.end(this.#last);
    if (!stream.readableEnded) {
      stream.unpipe();
      stream.resume();
      const timer = setTimeout(() => stream.close(constants.NGHTTP2_NO_ERROR), LINGER_MS);
      stream.once("close", () => clearTimeout(timer));
    }
  }

  cut(): void {
    resetStream(this.#stream);
  }
}
