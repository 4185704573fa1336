import type { NodeClients, NodeFailure } from "../ports.ts";
import { ScriptedFailure } from "./scripted-calls.ts";
import type { ScriptedCall } from "./scripted-calls.ts";
import { ScriptedNode } from "./scripted-node.ts";
import type { ScriptedFleet } from "./scripted-node.ts";

/** A fleet of {@link ScriptedNode}s that remembers every call in order. */
export class ScriptedNodes implements NodeClients {
  readonly calls: ScriptedCall[] = [];
  readonly #nodes = new Map<string, ScriptedNode>();
  readonly #fleet: ScriptedFleet = {
    calls: this.calls,
    nextId: (prefix) => `${prefix}${(this.#made += 1).toString(16).padStart(16, "0")}`,
    holders: (checkpointId, besides) =>
      [...this.#nodes.values()]
        .filter((node) => node !== besides && node.holdsCheckpoint(checkpointId))
        .map((node) => node.address),
  };
  #made = 0;

  /** The node at this address, made on first use. */
  node(address: string): ScriptedNode {
    let node = this.#nodes.get(address);
    if (node === undefined) {
      node = new ScriptedNode(address, this.#fleet);
      this.#nodes.set(address, node);
    }
    return node;
  }

  forAddress(address: string): ScriptedNode {
    return this.node(address);
  }

  failure(error: unknown): NodeFailure {
    return error instanceof ScriptedFailure ? error.failure : { kind: "uncertain" };
  }
}
