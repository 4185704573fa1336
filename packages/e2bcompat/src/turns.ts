import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { endConnection } from "./last-words.ts";

/**
 * Which answers each connection still owes. Requests may stand behind one another in a connection, and whatever is
 * wrong with one of them must not take the place of the answer to another: a sandbox that was made is reported as made.
 */
export class Turns {
  readonly #latest = new WeakMap<Duplex, ServerResponse>();
  /** The answer in front of one, where a request came before that was out. */
  readonly #before = new WeakMap<ServerResponse, ServerResponse>();
  readonly #ending = new WeakSet<Duplex>();

  /** Notes the answer to a request, in the order in which they came. */
  add(response: ServerResponse): void {
    const { socket } = response.req;
    const before = this.#latest.get(socket);
    if (before !== undefined && !before.closed) {
      this.#before.set(response, before);
    }
    this.#latest.set(socket, response);
  }

  /** Whether a connection takes no further request. Node hands them out all the same. */
  isEnding(socket: Duplex): boolean {
    return this.#ending.has(socket);
  }

  /** Notes that an answer is the last word on its connection. */
  endWith(response: ServerResponse): void {
    this.#ending.add(response.req.socket);
  }

  /** The answer to a request whose body has not come whole, if there is one. */
  broken(socket: Duplex): ServerResponse | undefined {
    const latest = this.#latest.get(socket);
    return latest?.req.complete === false ? latest : undefined;
  }

  /** The last answer to a whole request that is not out yet. */
  owed(socket: Duplex): ServerResponse | undefined {
    const latest = this.#latest.get(socket);
    const whole = latest?.req.complete === false ? this.#before.get(latest) : latest;
    return whole?.closed === false ? whole : undefined;
  }

  /**
   * Ends a connection, behind the answers that it owes, with what is to be said then. Says so once, however often
   * something goes wrong on it.
   */
  end(socket: Duplex, lastWords: () => string): void {
    if (this.#ending.has(socket)) {
      return;
    }
    this.#ending.add(socket);
    const owed = this.owed(socket);
    if (owed === undefined) {
      endConnection(socket, lastWords());
      return;
    }
    // Node's own way to close behind a last answer is reset by what is still unread, and the answer may be lost.
    (socket as Socket).destroySoon = () => endConnection(socket, "");
    owed.once("close", () => {
      // An answer that closes the connection is the last word on it.
      if (socket.destroyed || !socket.writable) {
        return;
      }
      endConnection(socket, lastWords());
    });
  }

  /** Does for a connection what Node does no more once it has handed that out, and drops what comes on it. */
  keep(socket: Duplex): void {
    socket.on("error", () => undefined);
    socket.once("end", () => socket.destroy());
    socket.once("close", () => {
      let response = this.#latest.get(socket);
      while (response !== undefined && !response.closed) {
        response.destroy();
        response = this.#before.get(response);
      }
    });
    socket.resume();
  }
}
