import { createServer } from "node:net";
import type { Socket } from "node:net";
import { cpuClock } from "../compare.ts";
import { listen } from "../listen.ts";
import { answerCalls } from "../remote.ts";
import { ScriptedGuest } from "./scripted-guest.ts";
import { ScriptedNode } from "./scripted-node.ts";

/** What this process does: one node with the guests on it, and a plain pipe to a guest's port. */
export interface GuestsCalls {
  readonly [name: string]: (argument: never) => unknown;
  readonly serve: (argument: undefined) => Promise<GuestAddresses>;
  readonly cpu: (argument: undefined) => number;
}

/** Where they listen. */
export interface GuestAddresses {
  readonly node: string;
  /** A guest's port, reached directly. */
  readonly guest: string;
}

const SWITCHING = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\r\n";
const RELAY = /^GET \/v1\/sandboxes\/[^/ ]+\/ports\/\d+ /;

/** A relay is the guest's own connection from its 101 on; any other call is the node's. */
function onConnection(node: ScriptedNode, socket: Socket): void {
  socket.once("data", (chunk: Buffer) => {
    if (RELAY.test(chunk.toString("latin1", 0, 256))) {
      socket.write(SWITCHING, "latin1");
      const guest = new ScriptedGuest(socket);
      const behind = chunk.indexOf("\r\n\r\n") + 4;
      if (behind < chunk.length) {
        guest.read(chunk.subarray(behind));
      }
    } else {
      node.serve(socket);
      socket.emit("data", chunk);
    }
  });
  socket.on("error", () => socket.destroy());
}

const calls: GuestsCalls = {
  serve: async () => {
    const nodeServer = createServer({ noDelay: true });
    const address = await listen(nodeServer);
    const size = { nodes: 1, perNode: 100 };
    const node = new ScriptedNode({
      index: 0,
      size,
      order: "kept",
      address,
      peers: [address],
      warm: 5,
      redirectTo: undefined,
    });
    nodeServer.on("connection", (socket) => onConnection(node, socket));
    const guestServer = createServer(
      { noDelay: true, allowHalfOpen: true },
      (socket) => void new ScriptedGuest(socket),
    );
    return { node: address, guest: await listen(guestServer) };
  },
  cpu: () => cpuClock(),
};

answerCalls(calls);
