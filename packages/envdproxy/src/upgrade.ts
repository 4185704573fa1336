import { ServerResponse } from "node:http";
import type { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import type { GuestSwitch } from "./guest-leg.ts";
import { writeSwitch } from "./inbound-http1.ts";
import { LINGER_MS } from "./inbound.ts";
import { splice } from "./splice.ts";

/** What a client may send before the guest has answered, in bytes; then its connection waits. */
const MAX_EARLY_BYTES = 64 * 1024;

/** Breaks a raw connection off so that its peer sees it break. */
function reset(stream: Duplex): void {
  if (stream instanceof Socket && !(stream instanceof TLSSocket) && !stream.destroyed) {
    stream.resetAndDestroy();
  } else {
    stream.destroy();
  }
}

/**
 * A connection whose client asks for another protocol. Until the guest agrees it can be answered in HTTP through
 * `response`; bytes that the client sends in the meantime are kept for the guest.
 */
export class UpgradeSocket {
  /** The protocol that the client asks for. */
  readonly protocol: string;
  /** Answers in HTTP, after which the connection closes. */
  readonly response: ServerResponse;
  readonly #socket: Duplex;
  readonly #early: Buffer[] = [];
  #earlyBytes = 0;
  #switched: (() => void) | undefined;

  constructor(request: IncomingMessage, socket: Duplex, head: Buffer) {
    this.protocol = request.headers.upgrade ?? "";
    this.#socket = socket;
    this.#keep(head);
    this.response = new ServerResponse(request);
    this.response.shouldKeepAlive = false;
    // An unhandled error of one socket would end the process.
    socket.on("error", this.#onError);
    socket.on("data", this.#onData);
    socket.on("end", this.#onEnd);
    socket.on("drain", this.#onDrain);
    // Node's types ask for a net.Socket; every duplex stream does.
    this.response.assignSocket(socket as Socket);
    this.response.once("finish", this.#onAnswered);
    socket.resume();
  }

  readonly #onError = (): void => {
    this.#socket.destroy();
  };

  readonly #onData = (chunk: Buffer): void => {
    this.#keep(chunk);
    if (this.#earlyBytes > MAX_EARLY_BYTES) {
      this.#socket.pause();
    }
  };

  /** A client that stops sending before there is an answer has left. */
  readonly #onEnd = (): void => {
    this.#socket.destroy();
  };

  readonly #onDrain = (): void => {
    this.response.emit("drain");
  };

  readonly #onAnswered = (): void => {
    const socket = this.#socket;
    // What the client sent for the guest has no reader any more; unread bytes would turn the close into a reset.
    this.#early.length = 0;
    socket.off("data", this.#onData);
    socket.resume();
    socket.end();
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    socket.once("close", () => clearTimeout(timer));
  };

  #keep(chunk: Buffer): void {
    if (chunk.length > 0) {
      this.#early.push(chunk);
      this.#earlyBytes += chunk.length;
    }
  }

  /** Called once when the guest agreed. */
  onSwitched(listener: () => void): void {
    this.#switched = listener;
  }

  /** Tells the client that the guest agreed, replays what either side sent early, and joins the two connections. */
  join(change: GuestSwitch): void {
    const socket = this.#socket;
    const { relay } = change;
    this.response.off("finish", this.#onAnswered);
    this.response.detachSocket(socket as Socket);
    socket.off("data", this.#onData);
    socket.off("end", this.#onEnd);
    socket.off("drain", this.#onDrain);
    socket.pause();
    writeSwitch(socket, change.statusText, change.headers);
    if (change.early.length > 0) {
      socket.write(change.early);
    }
    for (const chunk of this.#early) {
      relay.write(chunk);
    }
    this.#early.length = 0;
    splice(socket, relay, reset);
    this.#switched?.();
  }
}
