import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** How long a client may go on sending what nobody reads. */
const LINGER_MS = 5000;

/**
 * Which answers each connection still owes. Requests may stand behind one another in a connection, and whatever is
 * wrong with one of them must not take the place of the answer to another: what was carried out is answered as that.
 */
export class Turns {
  readonly #latest = new WeakMap<Socket, ServerResponse>();
  /** The answer in front of one, where a request came before that was out. */
  readonly #before = new WeakMap<ServerResponse, ServerResponse>();
  readonly #ending = new WeakSet<Socket>();

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
  isEnding(socket: Socket): boolean {
    return this.#ending.has(socket);
  }

  /** The answer to the latest request of a connection. */
  last(socket: Socket): ServerResponse | undefined {
    return this.#latest.get(socket);
  }

  /** Ends a connection on which the HTTP parser failed, with `refuse` as the last word where one is due. */
  fail(socket: Socket, code: string | undefined, refuse: () => void): void {
    if (this.#ending.has(socket)) {
      return;
    }
    this.#ending.add(socket);
    const latest = this.#latest.get(socket);
    const broken = latest?.req.complete === false ? latest : undefined;
    const owed = broken === undefined ? latest : this.#before.get(broken);
    if (owed === undefined || owed.closed) {
      finish(socket, code, broken, refuse);
    } else if (code === "HPE_INVALID_EOF_STATE" && broken === undefined) {
      // A client that stops sending has left, whatever it began to ask.
      socket.destroy();
    } else {
      // Node's own way to close behind a last answer is reset by what is still unread, and the answer may be lost.
      socket.destroySoon = () => endGently(socket, "");
      owed.once("close", () => {
        // An answer that closes the connection is the last word on it.
        if (!socket.writableEnded) {
          finish(socket, code, broken, refuse);
        }
      });
    }
  }
}

function finish(
  socket: Socket,
  code: string | undefined,
  broken: ServerResponse | undefined,
  refuse: () => void,
): void {
  if (broken?.headersSent === true && !broken.writableEnded) {
    // Text in the middle of an answer would be taken for a part of it.
    socket.destroy();
  } else if (code === "HPE_CLOSED_CONNECTION" || broken?.writableEnded === true) {
    // Nobody asked for an answer to what stands behind a request that is the last by its own words, and a body that
    // breaks behind the answer to its request changes nothing.
    endGently(socket, "");
  } else {
    refuse();
  }
}

/**
 * Sends the last bytes of a connection and ends it. What the client may still send is read and dropped: unread bytes
 * would turn the answer into a reset.
 */
export function endGently(socket: Socket, bytes: string): void {
  socket.resume();
  socket.end(bytes);
  // Not the socket's own time-out: bytes that still come would put it off for ever.
  const late = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once("close", () => clearTimeout(late));
}
