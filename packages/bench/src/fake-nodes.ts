import type { NodeClient, NodeClients } from "@org/scale";

/** Nodes without a network. Every node is the same one and knows the calls that are measured, no others. */
export class FakeNodes implements NodeClients {
  readonly #client: NodeClient;

  constructor(calls: Partial<NodeClient>) {
    // A call that is missing here is a mistake of the suite, and ends it with a TypeError.
    this.#client = calls as NodeClient;
  }

  forAddress(): NodeClient {
    return this.#client;
  }

  failure(): { readonly kind: "uncertain" } {
    return { kind: "uncertain" };
  }
}
