import type { Socket } from "node:net";
import type { Writable } from "node:stream";
import { ChunkedBody, writeWhole } from "./chunked-body.ts";
import { areSayable, fieldLines } from "./field-line.ts";
import type { Framing } from "./forward-headers.ts";
import { headBytes, reasonOf } from "./inbound-http1.ts";
import type { Inbound, ResponseHead } from "./inbound.ts";
import type { PlainRequest } from "./plain-request.ts";
import { count, withoutField } from "./raw-headers.ts";
import type { RawHeaders } from "./raw-headers.ts";

/** Where a plain request came from. */
export interface PlainOrigin {
  readonly socket: Socket;
  readonly secure: boolean;
  readonly peer: string;
  /** Whether the answer to what runs is the last one on its connection. */
  readonly last: boolean;
}

const NO_TRAILERS: RawHeaders = [];

/** An exchange over HTTP/1.1 whose request is of the common form and all there. */
export class PlainInbound implements Inbound {
  readonly method: string;
  readonly target: string;
  readonly authority: string;
  readonly headers: RawHeaders;
  readonly framing: Framing;
  readonly wellFormed = true;
  readonly expectsContinue = false;
  readonly body: Buffer;
  readonly #origin: PlainOrigin;
  readonly #onOver: (last: boolean) => void;
  #chunks: ChunkedBody | undefined;
  /** The answer is in chunks, none of which follow. */
  #noChunks = false;
  #begun = false;
  #last = false;
  #over = false;
  #gone = false;
  #goneListener: (() => void) | undefined;
  #closeListener: (() => void) | undefined;

  /** `onOver` is told once the answer is on its way, unless the client left before; and whether it is the last one. */
  constructor(request: PlainRequest, origin: PlainOrigin, onOver: (last: boolean) => void) {
    this.method = request.method;
    this.target = request.target;
    this.authority = request.authority;
    this.headers = request.headers;
    this.framing = request.framing;
    this.body = request.body;
    this.#origin = origin;
    this.#onOver = onOver;
  }

  get secure(): boolean {
    return this.#origin.secure;
  }

  get peer(): string {
    return this.#origin.peer;
  }

  get gone(): boolean {
    return this.#gone;
  }

  onGone(listener: () => void): void {
    this.#goneListener = listener;
  }

  onClose(listener: () => void): void {
    this.#closeListener = listener;
  }

  /** Its body is here already. */
  invite(): void {}

  inform(status: number, headers: RawHeaders): void {
    if (!this.#begun && areSayable(headers)) {
      this.#origin.socket.write(headBytes(status, reasonOf(status, ""), headers), "latin1");
    }
  }

  trailers(): RawHeaders {
    return NO_TRAILERS;
  }

  respond(head: ResponseHead): Writable {
    const { socket } = this.#origin;
    const { text, chunked } = this.#begin(head);
    // One packet for the head and whatever of the body is there already; the head leaves within this turn either way.
    socket.cork();
    setImmediate(() => socket.uncork());
    socket.write(text, "latin1");
    this.#noChunks = chunked && head.empty;
    if (!chunked || head.empty) {
      return socket;
    }
    this.#chunks = new ChunkedBody(socket);
    return this.#chunks;
  }

  respondWhole(head: ResponseHead, body: Buffer): void {
    const { socket } = this.#origin;
    const { text, chunked } = this.#begin(head);
    if (!chunked) {
      writeWhole(socket, text, body, this.#end);
    } else if (body.length === 0) {
      socket.write(`${text}0\r\n\r\n`, "latin1", this.#end);
    } else {
      writeWhole(socket, `${text}${body.length.toString(16)}\r\n`, body);
      socket.write("\r\n0\r\n\r\n", "latin1", this.#end);
    }
  }

  finish(trailers: RawHeaders): void {
    if (this.#chunks !== undefined) {
      this.#chunks.finish(areSayable(trailers) ? trailers : NO_TRAILERS, this.#end);
    } else {
      this.#origin.socket.write(this.#noChunks ? "0\r\n\r\n" : "", "latin1", this.#end);
    }
  }

  /** The length of what was begun is known to the client, in bytes or in chunks: it sees that this was not all. */
  cut(): void {
    if (!this.#over) {
      this.#origin.socket.destroy();
    }
  }

  /** The client is not there any more. */
  leave(): void {
    if (!this.#over) {
      this.#over = true;
      this.#gone = true;
      this.#goneListener?.();
      this.#closeListener?.();
    }
  }

  readonly #end = (error?: Error | null): void => {
    // A connection that broke says so itself.
    if (!this.#over && (error === undefined || error === null)) {
      this.#over = true;
      this.#closeListener?.();
      this.#onOver(this.#last);
    }
  };

  /** The head as text, and whether a body in chunks follows it. */
  #begin(head: ResponseHead): { readonly text: string; readonly chunked: boolean } {
    const { status } = head;
    if (!areSayable(head.headers)) {
      throw new TypeError("the answer's head can not be said in HTTP/1.1");
    }
    const bodyless = this.method === "HEAD" || status === 204 || status === 304;
    const chunked = !bodyless && count(head.headers, "content-length") === 0;
    // Trailers may only be announced where chunks can carry them.
    const headers = chunked && !head.empty ? head.headers : withoutField(head.headers, "trailer");
    this.#begun = true;
    this.#last = head.last === true || this.#origin.last;
    const text =
      `HTTP/1.1 ${status} ${reasonOf(status, head.statusText)}\r\n${fieldLines(headers)}` +
      `Connection: ${this.#last ? "close" : "keep-alive"}\r\n${chunked ? "Transfer-Encoding: chunked\r\n" : ""}\r\n`;
    return { text, chunked };
  }
}
