import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { PlainInbound } from "./inbound-plain.ts";
import type { PlainOrigin } from "./inbound-plain.ts";
import { peerAddress } from "./inbound.ts";
import { readPlainRequest } from "./plain-request.ts";

/** What becomes of a {@link PlainConnection}. */
export interface PlainEvents {
  onRequest(inbound: PlainInbound): void;
  /** The exchange is over, complete or not. */
  onOver(): void;
  /**
   * What comes next is no plain request, or came `early`, before the answer to the one in front of it. The connection is
   * paused, its bytes are back in it, and it is let go of.
   */
  onOther(early: boolean): void;
  /** The connection ended, or was let go of. */
  onLeft(): void;
}

/** What a client may send behind a request that runs, in bytes; from then on its connection is read now and then only. */
const EARLY_BYTES = 64 * 1024;
/** Who sends more than this without waiting for an answer is cut off. */
const MAX_EARLY_BYTES = 8 * 1024 * 1024;
/** How often a connection that waits is read: that is how a client that left is noticed. */
const LOOK_MS = 1000;

/**
 * A connection for as long as its client sends plain requests, one after the other. Node's server knows all of HTTP/1,
 * and takes for each request about as much time as everything else that happens to it here; so it gets the connections
 * on which something else is said, from there on. What is said in the meantime is answered in order.
 */
export class PlainConnection implements PlainOrigin {
  readonly socket: Socket;
  readonly secure: boolean;
  readonly peer: string;
  readonly #events: PlainEvents;
  /** What came before the answer to what runs: its client does not wait, so what follows is no plain request. */
  readonly #early: Buffer[] = [];
  #earlyBytes = 0;
  #look: NodeJS.Timeout | undefined;
  #running: PlainInbound | undefined;
  #last = false;
  #left = false;

  constructor(socket: Socket, events: PlainEvents) {
    this.socket = socket;
    this.secure = socket instanceof TLSSocket;
    this.peer = peerAddress(socket.remoteAddress);
    this.#events = events;
    socket.on("data", this.#onData);
    socket.on("end", this.#onEnd);
    socket.on("close", this.#onClose);
    socket.resume();
  }

  get last(): boolean {
    return this.#last;
  }

  /** Closes it, once what runs on it is answered. */
  close(): void {
    this.#last = true;
    if (this.#running === undefined) {
      this.socket.destroy();
    }
  }

  /** Breaks off what runs on it. */
  cut(): void {
    this.#running?.cut();
  }

  readonly #onData = (bytes: Buffer): void => {
    if (this.#running === undefined) {
      this.#read(bytes);
      return;
    }
    this.#early.push(bytes);
    this.#earlyBytes += bytes.length;
    if (this.#earlyBytes > MAX_EARLY_BYTES) {
      this.socket.destroy();
    } else if (this.#earlyBytes > EARLY_BYTES) {
      this.socket.pause();
      clearTimeout(this.#look);
      this.#look = setTimeout(() => this.socket.resume(), LOOK_MS);
    }
  };

  /** A client that stops sending before it has its answer has left. */
  readonly #onEnd = (): void => {
    if (this.#running === undefined) {
      this.socket.end();
    } else {
      this.socket.destroy();
    }
  };

  readonly #onClose = (): void => {
    clearTimeout(this.#look);
    const running = this.#running;
    if (running !== undefined) {
      this.#running = undefined;
      running.leave();
      this.#events.onOver();
    }
    this.#leave();
  };

  readonly #onOver = (last: boolean): void => {
    clearTimeout(this.#look);
    this.#running = undefined;
    this.#events.onOver();
    if (last || this.#last) {
      // What comes until it is closed would be carried out without an answer.
      this.socket.off("data", this.#onData);
      this.socket.destroySoon();
      return;
    }
    if (this.#early.length > 0) {
      this.#handOver(Buffer.concat(this.#early), true);
    }
  };

  #read(bytes: Buffer): void {
    const request = readPlainRequest(bytes);
    if (request === undefined) {
      this.#handOver(bytes, false);
      return;
    }
    this.#running = new PlainInbound(request, this, this.#onOver);
    this.#events.onRequest(this.#running);
  }

  #handOver(bytes: Buffer, early: boolean): void {
    const { socket } = this;
    socket.off("data", this.#onData);
    socket.off("end", this.#onEnd);
    socket.off("close", this.#onClose);
    this.#leave();
    socket.pause();
    socket.unshift(bytes);
    this.#events.onOther(early);
  }

  #leave(): void {
    if (!this.#left) {
      this.#left = true;
      this.#events.onLeft();
    }
  }
}
