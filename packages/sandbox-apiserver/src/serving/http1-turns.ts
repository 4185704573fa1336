import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

/** A request and what answers it. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/**
 * Which answers each connection still owes. Requests may stand behind one another in a connection, and what is wrong
 * with one of them must not take the place of the answer to another: a sandbox that was made is reported as made.
 */
export class Http1Turns {
  readonly #latest = new WeakMap<Duplex, Exchange>();
  /** The exchange in front of one, where a request came before that was answered. */
  readonly #before = new WeakMap<Exchange, Exchange>();
  readonly #ending = new WeakSet<Duplex>();

  /** Notes an exchange, in the order in which requests came. */
  add(exchange: Exchange): void {
    const { socket } = exchange.request;
    const before = this.#latest.get(socket);
    if (before !== undefined && !before.response.closed) {
      this.#before.set(exchange, before);
    }
    this.#latest.set(socket, exchange);
  }

  /** The exchange of the newest request of a connection. */
  latest(socket: Duplex): Exchange | undefined {
    return this.#latest.get(socket);
  }

  /** Whether a connection takes no further request. Node hands them out all the same. */
  isEnding(socket: Duplex): boolean {
    return this.#ending.has(socket) || this.#latest.get(socket)?.response.shouldKeepAlive === false;
  }

  /** Notes that a connection takes no further request. Returns whether that is new. */
  end(socket: Duplex): boolean {
    const isNew = !this.#ending.has(socket);
    this.#ending.add(socket);
    return isNew;
  }

  /** The answer to a request whose body has not come whole, if there is one. */
  broken(socket: Duplex): ServerResponse | undefined {
    const latest = this.#latest.get(socket);
    return latest?.request.complete === false ? latest.response : undefined;
  }

  /** The last answer to a whole request that is not out yet. */
  owed(socket: Duplex): ServerResponse | undefined {
    const latest = this.#latest.get(socket);
    const whole = latest?.request.complete === false ? this.#before.get(latest) : latest;
    return whole?.response.closed === false ? whole.response : undefined;
  }
}
