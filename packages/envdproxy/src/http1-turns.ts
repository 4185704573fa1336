import type { ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

/**
 * Which answers every HTTP/1.1 connection still owes. Requests may stand behind one another in a connection, and
 * whatever is wrong with one of them must not take the place of the answer to another: what was carried out is
 * answered as what it was.
 */
export class Http1Turns {
  readonly #latest = new WeakMap<Duplex, ServerResponse>();
  /** The answer in front of one, where a request came before that was out. */
  readonly #before = new WeakMap<ServerResponse, ServerResponse>();
  readonly #ending = new WeakSet<Duplex>();
  readonly #early = new WeakSet<Duplex>();

  /** Notes the answer to a request, in the order in which they came. */
  add(response: ServerResponse): void {
    const { socket } = response.req;
    const before = this.#latest.get(socket);
    if (before !== undefined && !before.closed) {
      this.#before.set(response, before);
    }
    this.#latest.set(socket, response);
    this.#early.delete(socket);
  }

  /** Notes that what comes next on a connection was sent before the answer to something else was out. */
  early(socket: Duplex): void {
    this.#early.add(socket);
  }

  /** Whether what comes next may switch protocols: its client waits for no other answer. */
  maySwitch(socket: Duplex): boolean {
    return this.owed(socket) === undefined && !this.#early.has(socket);
  }

  /**
   * Whether a connection takes no further request: it ends, or an answer closes it. Node hands requests out all the
   * same, and they may be a part of the body of one whose framing is not relied on.
   */
  isOver(socket: Duplex): boolean {
    return this.#ending.has(socket) || this.#latest.get(socket)?.shouldKeepAlive === false;
  }

  /** Says that a connection ends. False when that was said before: what goes wrong now has had its answer. */
  end(socket: Duplex): boolean {
    if (this.#ending.has(socket)) {
      return false;
    }
    this.#ending.add(socket);
    return true;
  }

  /** The answer to a request that has not come whole, if there is one: what goes wrong is its body. */
  broken(socket: Duplex): ServerResponse | undefined {
    const latest = this.#latest.get(socket);
    return latest?.req.complete === false ? latest : undefined;
  }

  /** Does for a connection what Node does no more once it has handed that out, and drops what comes on it. */
  keep(socket: Duplex): void {
    const each = (act: (response: ServerResponse) => void): void => {
      let response = this.#latest.get(socket);
      while (response !== undefined && !response.closed) {
        act(response);
        response = this.#before.get(response);
      }
    };
    socket.on("error", () => undefined);
    socket.once("end", () => socket.destroy());
    socket.on("drain", () => each((response) => response.emit("drain")));
    socket.once("close", () => each((response) => response.destroy()));
    socket.resume();
  }

  /** The last answer to a whole request that is not out yet. */
  owed(socket: Duplex): ServerResponse | undefined {
    const latest = this.#latest.get(socket);
    const whole = latest?.req.complete === false ? this.#before.get(latest) : latest;
    return whole?.closed === false ? whole : undefined;
  }
}

/** Whether an error is one of the HTTP parser or its clock. Others end the connection by themselves. */
export function isParserError(code: string | undefined): boolean {
  return code?.startsWith("HPE_") === true || code === "ERR_HTTP_REQUEST_TIMEOUT";
}
