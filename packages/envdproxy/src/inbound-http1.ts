import { STATUS_CODES } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import type { Duplex, Writable } from "node:stream";
import { TLSSocket } from "node:tls";
import { ONE_STRING_BYTES } from "./chunked-body.ts";
import { fieldLines, isSayable } from "./field-line.ts";
import { switchHeaders } from "./forward-headers.ts";
import type { Framing } from "./forward-headers.ts";
import { LINGER_MS, peerAddress } from "./inbound.ts";
import type { Inbound, ResponseHead } from "./inbound.ts";
import { withoutField } from "./raw-headers.ts";
import type { RawHeaders } from "./raw-headers.ts";

function framingOf(request: IncomingMessage): Framing {
  if (request.headers["transfer-encoding"] !== undefined) {
    return { kind: "chunked" };
  }
  const length = request.headers["content-length"];
  return length === undefined ? { kind: "none" } : { kind: "length", length };
}

/**
 * Node takes a line that says HTTP/2.0 for a request like others, and chunks for what HTTP/1.0 may have; whoever stood
 * in between may have read neither like that (RFC 9112 §6.1).
 */
function isWellFormed(request: IncomingMessage, framing: Framing): boolean {
  return request.httpVersionMajor === 1 && (framing.kind !== "chunked" || request.httpVersionMinor > 0);
}

/** A head as HTTP/1.1 bytes, for answers that Node's response object can not write. */
export function headBytes(status: number, statusText: string, headers: RawHeaders): string {
  return `HTTP/1.1 ${status} ${statusText}\r\n${fieldLines(headers)}\r\n`;
}

/** The guest's words for a status, or the usual ones. */
export function reasonOf(status: number, statusText: string): string {
  return statusText === "" || !isSayable(statusText) ? (STATUS_CODES[status] ?? "") : statusText;
}

/**
 * Cuts a connection in the middle of an answer. Where only the end of the connection ends the body, an orderly close
 * would look like a complete answer, so it is reset.
 */
export function cutConnection(response: ServerResponse, socket: Duplex | null): void {
  if (socket === null || socket.destroyed) {
    return;
  }
  if (response.headersSent && !response.chunkedEncoding && socket instanceof Socket && !(socket instanceof TLSSocket)) {
    socket.resetAndDestroy();
  } else {
    socket.destroy();
  }
}

/** An exchange over HTTP/1.1 or 1.0. */
export class Http1Inbound implements Inbound {
  readonly method: string;
  readonly target: string;
  readonly authority: string;
  readonly headers: RawHeaders;
  readonly framing: Framing;
  readonly wellFormed: boolean;
  readonly secure: boolean;
  readonly peer: string;
  readonly body: IncomingMessage;
  readonly expectsContinue: boolean;
  readonly #response: ServerResponse;
  readonly #socket: Duplex;
  #gone = false;
  #sized = false;

  constructor(request: IncomingMessage, response: ServerResponse, expectsContinue: boolean) {
    this.method = request.method ?? "GET";
    this.target = request.url ?? "/";
    this.authority = request.headers.host ?? "";
    this.headers = request.rawHeaders;
    this.framing = framingOf(request);
    this.wellFormed = isWellFormed(request, this.framing);
    this.secure = request.socket instanceof TLSSocket;
    this.peer = peerAddress(request.socket.remoteAddress);
    this.body = request;
    this.expectsContinue = expectsContinue;
    this.#response = response;
    this.#socket = request.socket;
    // A client that goes away shows up as an error of the body as well; `onGone` is what acts on it.
    request.on("error", () => undefined);
    response.on("error", () => undefined);
    response.once("close", () => {
      this.#gone = !response.writableFinished;
    });
  }

  get gone(): boolean {
    return this.#gone;
  }

  onGone(listener: () => void): void {
    this.#response.once("close", () => {
      if (this.#gone) {
        listener();
      }
    });
  }

  onClose(listener: () => void): void {
    this.#response.once("close", listener);
  }

  invite(): void {
    if (this.expectsContinue && !this.#response.headersSent) {
      this.#response.writeContinue();
    }
  }

  inform(status: number, headers: RawHeaders): void {
    const { socket } = this.#response;
    // The answer of a pipelined request has no connection yet, and HTTP/1.0 knows no interim answers.
    if (socket !== null && !this.#response.headersSent && this.body.httpVersionMinor >= 1) {
      socket.write(headBytes(status, reasonOf(status, ""), headers), "latin1");
    }
  }

  trailers(): RawHeaders {
    return this.body.rawTrailers;
  }

  #writeHead(head: ResponseHead): void {
    const response = this.#response;
    response.sendDate = false;
    if (head.last === true) {
      response.shouldKeepAlive = false;
    }
    this.#sized = head.headers.some((field, i) => i % 2 === 0 && field.toLowerCase() === "content-length");
    const trailed = !head.empty && this.body.httpVersionMinor >= 1;
    response.writeHead(
      head.status,
      reasonOf(head.status, head.statusText),
      // Node refuses to announce trailers where no chunk can carry them.
      trailed ? [...head.headers] : withoutField(head.headers, "trailer"),
    );
  }

  respondWhole(head: ResponseHead, body: Buffer): void {
    const response = this.#response;
    this.#writeHead(head);
    if (body.length === 0) {
      response.end();
    } else if (body.length <= ONE_STRING_BYTES && this.#sized) {
      // Head and body as one string are one write, where two pieces are a list of them.
      response.end(body.toString("latin1"), "latin1");
    } else {
      response.end(body);
    }
    if (!this.body.complete) {
      this.#linger();
    }
  }

  respond(head: ResponseHead): Writable {
    const response = this.#response;
    this.#writeHead(head);
    if (head.empty) {
      return response;
    }
    // One packet for the head and whatever of the body is there already; the head leaves within this turn either way.
    // The socket is corked, not the response: Node 22 writes the end of a corked response before its body.
    const { socket } = response;
    socket?.cork();
    // Not `flushHeaders`, which recodes bytes beyond ASCII.
    response.write("", "latin1");
    setImmediate(() => socket?.uncork());
    return response;
  }

  finish(trailers: RawHeaders): void {
    const response = this.#response;
    if (trailers.length > 0 && response.chunkedEncoding) {
      const pairs: [string, string][] = [];
      for (let i = 0; i + 1 < trailers.length; i += 2) {
        pairs.push([trailers[i] ?? "", trailers[i + 1] ?? ""]);
      }
      response.addTrailers(pairs);
    }
    response.end();
    if (!this.body.complete) {
      this.#linger();
    }
  }

  cut(): void {
    const response = this.#response;
    if (response.writableFinished) {
      return;
    }
    if (this.#sized || response.chunkedEncoding || !response.headersSent) {
      this.#socket.destroy();
    } else {
      cutConnection(response, this.#socket);
    }
  }

  #linger(): void {
    const request = this.body;
    request.unpipe();
    request.resume();
    const timer = setTimeout(() => {
      if (!request.complete) {
        this.#socket.destroy();
      }
    }, LINGER_MS);
    request.once("close", () => clearTimeout(timer));
  }
}

/** Writes the answer that switches protocols. What follows on the connection is not HTTP any more. */
export function writeSwitch(socket: Duplex, statusText: string, headers: RawHeaders): void {
  socket.write(headBytes(101, reasonOf(101, statusText), switchHeaders(headers)), "latin1");
}
