import { createServer } from "node:net";
import type { Server } from "node:net";
import { answerCalls } from "../remote.ts";
import type { FleetSize } from "../fleet.ts";
import { listen } from "../listen.ts";
import type { RowOrder } from "../node-replies.ts";
import { ScriptedNode } from "./scripted-node.ts";

/** Nodes of one mesh. */
export interface NodesToServe extends FleetSize {
  readonly order: RowOrder;
  /** Sandboxes that each node says it has ready, node by node; the last one counts for the rest. */
  readonly warm: readonly number[];
  /** The first node names the second for every claim that it may. */
  readonly redirects?: boolean | undefined;
}

/** What this process does. */
export interface NodesCalls {
  readonly [name: string]: (argument: never) => unknown;
  /** Serves a mesh and tells its addresses. */
  readonly serve: (mesh: NodesToServe) => Promise<readonly string[]>;
  readonly close: (addresses: readonly string[]) => void;
  /** Replaces one per cent of the sandboxes of all nodes, or puts them back. */
  readonly flip: (argument: undefined) => void;
  /** How many claims each address delivered so far. */
  readonly delivered: (addresses: readonly string[]) => readonly number[];
}

const nodes = new Map<string, { readonly node: ScriptedNode; readonly server: Server }>();

const calls: NodesCalls = {
  serve: async (mesh) => {
    const servers = Array.from({ length: mesh.nodes }, () => createServer({ noDelay: true }));
    const addresses = await Promise.all(servers.map(listen));
    for (const [index, server] of servers.entries()) {
      const address = addresses[index] ?? "";
      const node = new ScriptedNode({
        index,
        size: mesh,
        order: mesh.order,
        address,
        peers: addresses,
        warm: mesh.warm[index] ?? mesh.warm.at(-1) ?? 0,
        redirectTo: mesh.redirects === true && index === 0 ? addresses[1] : undefined,
      });
      server.on("connection", (socket) => node.serve(socket));
      nodes.set(address, { node, server });
    }
    return addresses;
  },
  close: (addresses) => {
    for (const address of addresses) {
      nodes.get(address)?.server.close();
      nodes.delete(address);
    }
  },
  flip: () => {
    for (const { node } of nodes.values()) {
      node.flip();
    }
  },
  delivered: (addresses) => addresses.map((address) => nodes.get(address)?.node.delivered ?? 0),
};

answerCalls(calls);
