import type { Readable, Writable } from "node:stream";
import type { Framing } from "./forward-headers.ts";
import type { RawHeaders } from "./raw-headers.ts";

/** Head of an answer. */
export interface ResponseHead {
  readonly status: number;
  readonly statusText: string;
  readonly headers: RawHeaders;
  /** No body will follow, so the head alone ends the answer where the protocol allows it. */
  readonly empty: boolean;
  /** The connection can not carry another request, since nobody knows where this one ends. */
  readonly last?: boolean;
}

/** One request as a client sent it, and the way to answer it, whatever the protocol. */
export interface Inbound {
  readonly method: string;
  /** The request target as it was written. */
  readonly target: string;
  /** `Host` or `:authority`; empty when there is none. */
  readonly authority: string;
  readonly headers: RawHeaders;
  readonly framing: Framing;
  /** False for a message whose version or framing nobody can rely on. Only an error answers it. */
  readonly wellFormed: boolean;
  readonly secure: boolean;
  /** Address of the client. */
  readonly peer: string;
  /** What is all there already is its bytes. */
  readonly body: Readable | Buffer;
  /** Whether the client waits for `100 Continue` before it sends the body. */
  readonly expectsContinue: boolean;
  /** True once the client went away before the answer was complete. */
  readonly gone: boolean;
  /** Called at most once, when the client goes away before the answer is complete. */
  onGone(listener: () => void): void;
  /** Called once, when the exchange is over. */
  onClose(listener: () => void): void;
  /** Asks for the body of a client that waits for it. */
  invite(): void;
  /** Passes an interim answer on, where the protocol allows it. */
  inform(status: number, headers: RawHeaders): void;
  /** Trailers of the request; complete when the body has ended. */
  trailers(): RawHeaders;
  /** Sends the head at once and returns where the body goes. Throws, before anything is sent, what can not be sent. */
  respond(head: ResponseHead): Writable;
  /** Sends an answer that is all there and ends it. Throws, before anything is sent, what can not be sent. */
  respondWhole(head: ResponseHead, body: Buffer): void;
  /** Ends the answer. A client that still sends its body is given a moment, then cut off. */
  finish(trailers: RawHeaders): void;
  /** Breaks the answer off so that it can not be taken for a complete one. */
  cut(): void;
}

/** How long a client that was answered early may go on sending before its connection is closed, in milliseconds. */
export const LINGER_MS = 1000;

/** The plain form of an address: IPv4 clients of a dual-stack listener show up as `::ffff:a.b.c.d`. */
export function peerAddress(address: string | undefined): string {
  return address?.replace(/^::ffff:(?=\d+\.)/i, "") ?? "";
}
