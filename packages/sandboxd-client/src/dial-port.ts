import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { bearer, idSegment, parseNodeAddress, type NodeAddress } from "./address.ts";
import { errorText, SandboxdError, statusError, type SandboxdErrorCode } from "./errors.ts";
import { connectedEvent, openSocket } from "./open-socket.ts";
import { readRelayReply, type RelayReply } from "./relay-reply.ts";

/** Options of {@link dialPort}. */
export interface DialPortOptions {
  /** `host:port` or an origin; `https://` dials TLS. */
  readonly address: string;
  readonly id: string;
  /** 1 to 65535, inside the guest. */
  readonly port: number;
  /** The sandbox's own token for an active relay, the root token for a passive one. */
  readonly token: string;
  /** Bound on connecting, TLS included, in milliseconds. @default 10000 */
  readonly connectTimeoutMs?: number | undefined;
  /** PEM certificates to verify an `https://` node against, instead of the system's. */
  readonly ca?: string | undefined;
}

/**
 * Opens a raw connection to a guest port through a node's relay. Node API §10.1.
 *
 * Resolves once the node says 101, that is after the guest accepted. Nothing bounds that wait, since a paused sandbox
 * is restored first: `signal` ends it, in any phase, and destroys the socket; after the promise is settled it has no
 * effect. Bytes that came behind the 101 are read first; a guest that ends without a byte may have done so before the
 * caller listens, as `readableEnded` tells. The stream closes each direction by itself; an error on it that nobody
 * listens for is dropped, `close` always follows.
 * @throws SandboxdError `status` with the node's refusal, `bad_request` for an id, token or port that is never sent.
 */
export async function dialPort(
  options: DialPortOptions,
  call: { readonly signal?: AbortSignal | undefined } = {},
): Promise<Duplex> {
  const address = parseNodeAddress(options.address);
  const id = idSegment(options.id);
  const authorization = bearer(options.token);
  if (!Number.isInteger(options.port) || options.port < 1 || options.port > 65_535) {
    throw new SandboxdError("bad_request", "port must be 1-65535", { delivery: "no" });
  }
  const head = [
    `GET /v1/sandboxes/${id}/ports/${options.port} HTTP/1.1`,
    `Host: ${address.host}`,
    ...(authorization === undefined ? [] : [`Authorization: ${authorization}`]),
    "Upgrade: tcp",
    "Connection: Upgrade",
    "",
    "",
  ].join("\r\n");
  const label = `relay to port ${options.port} of ${options.id} at ${address.text}`;
  return new Promise((resolve, reject) => {
    new Dial(label, head, call.signal, resolve, reject).start(address, options);
  });
}

class Dial {
  readonly #label: string;
  readonly #head: string;
  readonly #signal: AbortSignal | undefined;
  readonly #resolve: (relay: Duplex) => void;
  readonly #reject: (error: SandboxdError) => void;
  readonly #onAbort: () => void;
  #socket: Socket | undefined;
  #timer: NodeJS.Timeout | undefined;
  #sent = false;
  #settled = false;

  constructor(
    label: string,
    head: string,
    signal: AbortSignal | undefined,
    resolve: (relay: Duplex) => void,
    reject: (error: SandboxdError) => void,
  ) {
    this.#label = label;
    this.#head = head;
    this.#signal = signal;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#onAbort = (): void => this.#fail("aborted", "aborted", signal?.reason);
  }

  start(address: NodeAddress, options: DialPortOptions): void {
    if (this.#signal?.aborted === true) {
      this.#onAbort();
      return;
    }
    this.#signal?.addEventListener("abort", this.#onAbort, { once: true });
    const { connectTimeoutMs = 10_000, ca } = options;
    const socket = openSocket({ address, ca, allowHalfOpen: true });
    this.#socket = socket;
    // Stays for the life of the relay: a reset that nobody waits for must not end the process.
    socket.on("error", (error) => this.#fail(this.#sent ? "connection_lost" : "unreachable", errorText(error), error));
    socket.once("close", () => this.#fail(this.#sent ? "connection_lost" : "unreachable", "connection closed"));
    socket.once(connectedEvent(address), () => this.#onConnected(socket));
    this.#timer = setTimeout(
      () => this.#fail("unreachable", `no connection within ${connectTimeoutMs} ms`),
      connectTimeoutMs,
    );
  }

  #onConnected(socket: Socket): void {
    if (this.#settled) {
      return;
    }
    clearTimeout(this.#timer);
    this.#sent = true;
    socket.write(this.#head);
    readRelayReply(socket, (reply) => this.#onReply(socket, reply));
  }

  #onReply(socket: Socket, reply: RelayReply): void {
    if (reply.kind === "broken") {
      this.#fail(reply.closed ? "connection_lost" : "bad_reply", reply.why);
    } else if (reply.kind === "refused") {
      this.#finish(() => {
        socket.destroy();
        this.#reject(statusError(this.#label, reply.status, reply.body));
      });
    } else {
      this.#finish(() => this.#resolve(socket));
    }
  }

  #fail(code: SandboxdErrorCode, why: string, cause?: unknown): void {
    this.#finish(() => {
      this.#socket?.destroy();
      const delivery = this.#sent ? "maybe" : "no";
      this.#reject(new SandboxdError(code, `${this.#label}: ${why}`, { delivery, cause }));
    });
  }

  #finish(end: () => void): void {
    if (!this.#settled) {
      this.#settled = true;
      clearTimeout(this.#timer);
      this.#signal?.removeEventListener("abort", this.#onAbort);
      end();
    }
  }
}
