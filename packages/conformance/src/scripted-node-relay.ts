import type { IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";

import type { ScriptedState } from "./scripted-node-state.ts";

const SWITCHING = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\r\n";
const RELAY_PATH = /^\/v1\/sandboxes\/([^/?]+)\/ports\/(\d+)$/;

/** Relays of a scripted node to where its script says the guests are. */
export class ScriptedRelays {
  readonly #state: ScriptedState;
  readonly #open = new Map<string, Set<Socket>>();

  constructor(state: ScriptedState) {
    this.#state = state;
  }

  /** Breaks off every relay of a sandbox. */
  end(id: string): void {
    for (const socket of this.#open.get(id) ?? []) {
      socket.resetAndDestroy();
    }
  }

  /** Takes a connection whose client asked for a relay. */
  take(incoming: IncomingMessage, stream: Duplex, head: Buffer): void {
    const socket = stream as Socket;
    socket.on("error", () => undefined);
    const [, id = "", port = ""] = RELAY_PATH.exec(incoming.url ?? "") ?? [];
    const { script, claims } = this.#state;
    this.#state.journal({
      at: Date.now(),
      kind: "request",
      route: id === "" ? `relay ${incoming.url}` : "relay",
      id: id === "" ? undefined : id,
    });
    const trick = script.relays?.tricks[port];
    if (trick !== undefined) {
      socket.write(trick.bytes, "latin1");
      if (trick.ending === "end") {
        socket.end();
      } else if (trick.ending === "reset") {
        setTimeout(() => socket.resetAndDestroy(), trick.bytes === "" ? 0 : 10);
      }
      socket.once("end", () => socket.destroy());
      socket.resume();
      return;
    }
    const bearer = (incoming.headers.authorization ?? "").replace(/^Bearer /, "");
    const claim = claims.get(id);
    if (claim === undefined || (bearer !== claim.token && bearer !== script.token)) {
      refuse(socket, 404, "unknown sandbox");
    } else if (claim.hibernated && bearer === script.token) {
      refuse(socket, 409, "sandbox is hibernated");
    } else {
      const address = script.relays?.guests[port] ?? script.relays?.guests["*"];
      if (address === undefined) {
        refuse(socket, 502, "nothing listens");
      } else {
        this.#join(id, socket, head, address.replace(/\*$/, port));
      }
    }
  }

  #join(id: string, socket: Socket, head: Buffer, address: string): void {
    const colon = address.lastIndexOf(":");
    const guest = connect({
      host: address.slice(0, colon),
      port: Number(address.slice(colon + 1)),
      allowHalfOpen: true,
      noDelay: true,
    });
    socket.setNoDelay(true);
    const open = this.#open.get(id) ?? new Set();
    this.#open.set(id, open.add(socket));
    let joined = false;
    socket.once("close", () => {
      open.delete(socket);
      breakOff(guest);
    });
    guest.once("close", () => {
      if (joined) {
        breakOff(socket);
      }
    });
    guest.on("error", () => {
      if (joined) {
        breakOff(socket);
      } else {
        refuse(socket, 502, "nothing listens");
      }
    });
    socket.on("error", () => breakOff(guest));
    guest.once("connect", () => {
      joined = true;
      socket.write(SWITCHING);
      if (head.length > 0) {
        guest.write(head);
      }
      socket.pipe(guest);
      guest.pipe(socket);
    });
  }
}

/** A side that broke breaks the other; one that ended in both directions has closed it already. */
function breakOff(socket: Socket): void {
  if (!socket.destroyed && !(socket.readableEnded && socket.writableFinished)) {
    socket.resetAndDestroy();
  }
}

function refuse(socket: Socket, status: number, error: string): void {
  const body = JSON.stringify({ error });
  socket.end(
    `HTTP/1.1 ${status} Refused\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
  );
  socket.resume();
}
