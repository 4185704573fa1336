import type { DetachedWork } from "./detached-work.ts";
import { throwIfAborted } from "./detached-work.ts";
import type { NodePools } from "./domain.ts";
import { ScaleError } from "./errors.ts";
import { verbError } from "./node-failures.ts";
import type { Verb } from "./node-failures.ts";
import type { CallOptions, InventorySource, NodeClient, NodeClients } from "./ports.ts";

/** What {@link NodeCalls} work with. */
export interface NodeCallParts {
  readonly source: InventorySource;
  /** Absent: every call fails with `routing_disabled`. */
  readonly clients: NodeClients | undefined;
  readonly detached: DetachedWork;
}

/** Calls single nodes. Every failure becomes a {@link ScaleError} that names verb, id and node. */
export class NodeCalls {
  readonly #parts: NodeCallParts;

  constructor(parts: NodeCallParts) {
    this.#parts = parts;
  }

  /** The clients. @throws ScaleError `routing_disabled` */
  clients(verb: string): NodeClients {
    const { clients } = this.#parts;
    if (clients === undefined) {
      throw new ScaleError("routing_disabled", `sandboxd ${verb}: no node clients are configured`, { verb });
    }
    return clients;
  }

  /** The node of a verb, checked before any call. @throws ScaleError */
  nodeOf({ verb, node, id }: Verb): NodePools {
    const where = { verb, node, id };
    if (id === "" || node === "") {
      throw new ScaleError("bad_request", `sandboxd ${verb} needs ${id === "" ? "an id" : "a node"}`, where);
    }
    const said = id === undefined ? `sandboxd ${verb}` : `sandboxd ${verb} of "${id}"`;
    const pools = this.#parts.source.nodeCapacity(node);
    if (pools === undefined) {
      throw new ScaleError("not_found", `${said}: node "${node}" is unknown`, where);
    }
    if (pools.address === "") {
      throw new ScaleError("node_failed", `${said}: node "${node}" has no address`, where);
    }
    return pools;
  }

  /** One call. The signal ends it. */
  async call<T>(
    verb: Verb,
    signal: AbortSignal | undefined,
    call: (client: NodeClient, clients: NodeClients) => Promise<T>,
  ): Promise<T> {
    const clients = this.clients(verb.verb);
    const { address } = this.nodeOf(verb);
    throwIfAborted(signal);
    try {
      return await call(clients.forAddress(address), clients);
    } catch (error) {
      throwIfAborted(signal);
      throw verbError(clients, error, verb);
    }
  }

  /** A call that goes on when its caller leaves: the node would carry it out anyway, and the overlay must know. */
  write<T>(verb: Verb, options: CallOptions, call: (client: NodeClient) => Promise<T>): Promise<T> {
    return this.#parts.detached.run(() => this.call(verb, undefined, call), options.signal);
  }
}
