import type { ClaimedEntry } from "./claim-entry.ts";
import type { Delivery } from "./claim-hop.ts";
import type { DetachedWork } from "./detached-work.ts";
import type { Assignment } from "./domain.ts";
import { isScaleError } from "./errors.ts";
import { claimKey, nameKey } from "./node-index.ts";
import type { NodeIndex } from "./node-index.ts";
import type { Overlay } from "./overlay.ts";
import type { Logger } from "./ports.ts";
import type { Releases } from "./releases.ts";
import { namespaceOf } from "./sandbox-view.ts";

/** A sandbox that a node has made, and the entry that the node will list for it. */
export interface Made extends Delivery {
  readonly entry: ClaimedEntry;
}

/** What {@link Deliveries} work with. */
export interface DeliveryParts {
  readonly detached: DetachedWork;
  readonly releases: Releases;
  readonly index: NodeIndex;
  readonly overlay: Overlay;
  readonly logger: Logger;
}

/** Hands made sandboxes over to their callers, who can then read them, or gives them back when the caller has left. */
export class Deliveries {
  readonly #parts: DeliveryParts;

  constructor(parts: DeliveryParts) {
    this.#parts = parts;
  }

  /** Runs `make`. A caller that leaves is released at once; what is made for it later is released on its node. */
  async deliver(
    func: string,
    signal: AbortSignal | undefined,
    make: () => Promise<readonly Made[]>,
  ): Promise<readonly Assignment[]> {
    const made = await this.#parts.detached.run(make, signal, {
      done: (late) => this.abandon(late, func, "its caller had left"),
      failed: (error) => this.#lost(func, error),
    });
    return made.map((one) => this.#handOver(one));
  }

  /** Releases sandboxes that nobody will use. Never rejects. */
  async abandon(made: readonly Delivery[], func: string, why: string): Promise<void> {
    await Promise.all(
      made.map(({ node, reply }) => this.#parts.releases.abandon({ node: node.node, id: reply.id }, func, why)),
    );
  }

  #handOver({ node, reply, entry }: Made): Assignment {
    const { index, overlay } = this.#parts;
    const namespace = namespaceOf(entry.name);
    index.remember(nameKey(namespace, entry.name.slice(namespace.length + 1)), node.node);
    index.remember(claimKey(namespace, reply.id), node.node);
    index.remember(claimKey("", reply.id), node.node);
    overlay.claimed(node.node, entry);
    return {
      id: reply.id,
      node: node.node,
      address: reply.ownerAddress || node.address,
      token: reply.token,
      deadline: reply.deadline,
      netRoute: reply.netRoute,
      fromCheckpoint: reply.fromCheckpoint,
      claimRef: entry.claimRef,
    };
  }

  #lost(func: string, error: unknown): void {
    const uncertain =
      isScaleError(error, "claim_failed") || (isScaleError(error, "node_failed") && error.status === undefined);
    if (uncertain) {
      this.#parts.logger.warn(
        { func, node: error.node, err: error },
        "a claim whose caller had left may have been delivered; if so it lives until its lease ends",
      );
    }
  }
}
