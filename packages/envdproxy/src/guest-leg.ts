import type { Duplex, Readable, Writable } from "node:stream";
import type { RawHeaders } from "./raw-headers.ts";

/** Head of the guest's answer. */
export interface GuestHead {
  readonly status: number;
  readonly statusText: string;
  readonly headers: RawHeaders;
  /** Whether no body follows. */
  readonly empty: boolean;
}

/** Head of the guest's answer, with its body. */
export interface GuestResponse extends GuestHead {
  /** Ends only when the guest ended it; a broken answer is reported to `onBroken` instead. */
  readonly body: Readable;
  /** Complete once the body has ended. */
  trailers(): RawHeaders;
}

/** A guest that agreed to switch protocols. */
export interface GuestSwitch {
  readonly statusText: string;
  readonly headers: RawHeaders;
  readonly relay: Duplex;
  /** What the guest sent right behind its answer. */
  readonly early: Buffer;
}

/** What can become of a request. At most one of them ends it. */
export interface GuestEvents {
  onInform(status: number, headers: RawHeaders): void;
  /** Most answers are small and complete at once, without trailers: nothing has to be streamed then. */
  onWhole(head: GuestHead, body: Buffer): void;
  onResponse(response: GuestResponse): void;
  onSwitch(change: GuestSwitch): void;
  /** No answer came, or no valid one. `unheard` when the guest has not sent a byte. */
  onFailure(error: Error, unheard: boolean): void;
  /** The answer broke off. */
  onBroken(): void;
}

/** A request on its way to the guest. */
export interface GuestLeg {
  readonly body: Writable;
  endBody(trailers: RawHeaders): void;
  /**
   * Lets go of the relay once the answer's body has ended. How long the guest keeps it open, in milliseconds; 0 when it
   * can not carry another request. Then, and after anything else, {@link destroy} is called.
   */
  release(): number;
  /** Whether the guest sent more than its answer. To be asked when the answer is complete. */
  readonly spoke: boolean;
  /** Gives the relay up. Safe at any time. */
  destroy(): void;
}

/** A request for the guest. Header fields are those of HTTP/1.1. */
export interface GuestRequest {
  readonly method: string;
  /** Path and query as the client wrote them. */
  readonly path: string;
  /** `{port}-{id}.{domain}`. */
  readonly authority: string;
  readonly headers: RawHeaders;
  /** No body follows. */
  readonly empty: boolean;
  /** The body, where all of it is there; nothing follows it. */
  readonly whole?: Buffer | undefined;
  /** A body of unknown length follows. */
  readonly chunked: boolean;
  /** Asks for another protocol. */
  readonly upgrade: boolean;
}
