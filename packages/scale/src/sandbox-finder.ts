import { setImmediate as nextTurn } from "node:timers/promises";
import type { InventoryEntry, NodeInventory, Sandbox } from "./domain.ts";
import { abortedError, throwIfAborted } from "./detached-work.ts";
import { ScaleError } from "./errors.ts";
import { firstHit, within } from "./first-hit.ts";
import { describeFailure } from "./node-failures.ts";
import { claimKey, nameKey } from "./node-index.ts";
import type { NodeIndex } from "./node-index.ts";
import type { Overlay } from "./overlay.ts";
import type { InventorySource, Logger, NodeClient, NodeClients, NodeSandbox } from "./ports.ts";
import { isSameClaim, namespaceOf, qualifiedName, sandboxOf } from "./sandbox-view.ts";
import type { ViewIndex, ViewIndexes } from "./view-index.ts";

/** A view's maps take about a millisecond per ten thousand entries: so many are built before others get a turn. */
const BUILDS_PER_TURN = 8;

/** What one look-up wants, in an inventory and from a node. */
interface Query {
  /** How many nodes did not answer. */
  unanswered: number;
  readonly op: "get" | "claim-id get" | "watch";
  readonly key: string;
  /** Whether this view's maps exist already. */
  ready(index: ViewIndex): boolean;
  inView(view: NodeInventory, index: ViewIndex): InventoryEntry | undefined;
  /** Whether we released what is asked for, and data of this age cannot know. */
  goneFrom(node: string, asOfMs: number): boolean;
  ask(client: NodeClient, signal: AbortSignal): Promise<readonly NodeSandbox[]>;
  /** The same test for rows that a node sent: a node cannot hand back another sandbox. */
  accepts(entry: InventoryEntry, node: string): boolean;
}

/** What a {@link SandboxFinder} works with. */
export interface FinderParts {
  readonly source: InventorySource;
  readonly clients: NodeClients | undefined;
  readonly logger: Logger;
  readonly index: NodeIndex;
  readonly overlay: Overlay;
  readonly views: ViewIndexes;
  readonly liveTimeoutMs: number;
  readonly concurrency: number;
}

/**
 * Finds one sandbox: on the node last known to hold it, then in every inventory, then at every node. The first hit
 * wins. A node that is silent, unknown or failing is a miss, so a dead node cannot hold a look-up.
 */
export class SandboxFinder {
  readonly #parts: FinderParts;

  constructor(parts: FinderParts) {
    this.#parts = parts;
  }

  async byName(namespace: string, name: string, signal: AbortSignal | undefined): Promise<Sandbox> {
    const query = this.#nameQuery("get", namespace, name, () => true);
    const found = await this.#find(query, signal);
    if (found === undefined) {
      throw new ScaleError("not_found", `sandbox "${namespace}/${name}" not found`, { unanswered: query.unanswered });
    }
    return found;
  }

  /** A sandbox of this name that passes, in any inventory: one name can hold several claims. */
  listedByName(
    namespace: string,
    name: string,
    passes: (sandbox: Sandbox) => boolean,
    signal: AbortSignal | undefined,
  ): Promise<Sandbox | undefined> {
    return this.#sweep(this.#nameQuery("get", namespace, name, passes), signal);
  }

  /** What a sandbox's node lists of it now, when that passes. */
  listed(held: Sandbox, passes: (sandbox: Sandbox) => boolean): Sandbox | undefined {
    return this.#onNode(held.node, this.#heldQuery(held, passes));
  }

  /** What a sandbox's node says of it, when that passes. A node that does not answer in time does not hold it. */
  async live(
    held: Sandbox,
    passes: (sandbox: Sandbox) => boolean,
    signal: AbortSignal | undefined,
  ): Promise<Sandbox | undefined> {
    const query = this.#heldQuery(held, passes);
    const asOfMs = this.#parts.source.nodeInventory(held.node)?.asOfMs ?? Number.NEGATIVE_INFINITY;
    return query.goneFrom(held.node, asOfMs) ? undefined : this.#liveOnNode(held.node, query, signal);
  }

  /** Looks for one claim again, by its id when it has one. */
  #heldQuery(held: Sandbox, passes: (sandbox: Sandbox) => boolean): Query {
    const { namespace, name, id } = held;
    const query = this.#nameQuery("watch", namespace, name, (sandbox) => isSameClaim(sandbox, held) && passes(sandbox));
    if (id === "") {
      return query;
    }
    return {
      ...query,
      goneFrom: (node, asOfMs) => this.#parts.overlay.isGone(node, id, asOfMs),
      ask: (client, live) => rowsOf(client.sandbox(id, { signal: live })),
    };
  }

  #nameQuery(op: Query["op"], namespace: string, name: string, passes: (sandbox: Sandbox) => boolean): Query {
    const { overlay } = this.#parts;
    const qualified = `${namespace}/${name}`;
    const accepts = (entry: InventoryEntry, node: string): boolean =>
      qualifiedName(entry.name) === qualified && passes(sandboxOf(node, entry));
    return {
      unanswered: 0,
      op,
      key: nameKey(namespace, name),
      ready: (index) => index.namesReady,
      inView: ({ node, asOfMs }, index) => {
        const passing = (id: string, listed: InventoryEntry | undefined): InventoryEntry | undefined => {
          const now = overlay.resolve(node, id, listed, asOfMs);
          return now !== undefined && accepts(now, node) ? now : undefined;
        };
        const listed = index.byName(qualified);
        return (
          firstOf(listed, (entry) => passing(entry.id, entry)) ??
          firstOf(overlay.claimedAs(node, qualified), (id) =>
            listed.some((entry) => entry.id === id) ? undefined : passing(id, undefined),
          )
        );
      },
      // Names are claimed again: only an id is gone for good.
      goneFrom: () => false,
      ask: (client, live) => client.sandboxesByRef(qualified, { signal: live }),
      accepts,
    };
  }

  async byClaimId(
    namespace: string,
    id: string,
    match: (claimId: string) => boolean,
    signal: AbortSignal | undefined,
  ): Promise<Sandbox> {
    const { overlay } = this.#parts;
    const accepts = (entry: InventoryEntry): boolean =>
      entry.id !== "" && (namespace === "" || namespaceOf(entry.name) === namespace) && match(entry.id);
    const query: Query = {
      unanswered: 0,
      op: "claim-id get",
      key: claimKey(namespace, id),
      ready: (index) => index.idsReady,
      inView: (view, index) => {
        const resolved = (claimId: string, listed: InventoryEntry | undefined): InventoryEntry | undefined => {
          const now = overlay.resolve(view.node, claimId, listed, view.asOfMs);
          return now !== undefined && accepts(now) ? now : undefined;
        };
        return (
          resolved(id, index.byId(id)) ??
          firstOf(index.unusual(), (entry) => resolved(entry.id, entry)) ??
          firstOf(overlay.unusualOn(view.node), (claimId) => resolved(claimId, index.byId(claimId)))
        );
      },
      goneFrom: (node, asOfMs) => overlay.isGone(node, id, asOfMs),
      ask: (client, live) => rowsOf(client.sandbox(id, { signal: live })),
      accepts,
    };
    const found = await this.#find(query, signal);
    if (found === undefined) {
      throw new ScaleError("not_found", `sandbox "${id}" not found`, { id, unanswered: query.unanswered });
    }
    return found;
  }

  async #find(query: Query, signal: AbortSignal | undefined): Promise<Sandbox | undefined> {
    throwIfAborted(signal);
    const { clients, index, source, concurrency } = this.#parts;
    const known = index.lookup(query.key);
    if (known !== undefined) {
      if (query.goneFrom(known, source.nodeInventory(known)?.asOfMs ?? Number.NEGATIVE_INFINITY)) {
        return undefined;
      }
      const hinted = this.#onNode(known, query) ?? (await this.#liveOnNode(known, query, signal));
      if (hinted !== undefined) {
        return hinted;
      }
    }
    const listed = await this.#sweep(query, signal);
    if (listed !== undefined) {
      index.remember(query.key, listed.node);
      return listed;
    }
    if (clients === undefined) {
      return undefined;
    }
    const others = source.listNodes().filter((node) => node !== known);
    let live: Sandbox | undefined;
    try {
      live = await firstHit(others, concurrency, (node, stop) => this.#liveOnNode(node, query, stop), signal);
    } catch (error) {
      throw signal?.aborted === true ? abortedError(signal) : error;
    }
    if (live !== undefined) {
      index.remember(query.key, live.node);
    }
    return live;
  }

  /** Looks through every inventory. Works out missing maps a few at a time, so that a big fleet holds nobody up. */
  async #sweep(query: Query, signal: AbortSignal | undefined): Promise<Sandbox | undefined> {
    const { source, views } = this.#parts;
    let built = 0;
    for (const node of source.listNodes()) {
      const view = source.nodeInventory(node);
      if (view !== undefined && !query.ready(views.of(view))) {
        built += 1;
        if (built % BUILDS_PER_TURN === 0) {
          await nextTurn();
          throwIfAborted(signal);
        }
      }
      const found = this.#onNode(node, query);
      if (found !== undefined) {
        return found;
      }
    }
    return undefined;
  }

  #onNode(node: string, query: Query): Sandbox | undefined {
    const { source, views, logger } = this.#parts;
    const view = source.nodeInventory(node);
    if (view === undefined) {
      logger.debug(
        { func: "scale.matchOnNode", node, op: query.op },
        `node inventory unavailable during ${query.op}; skipping node node=${node}`,
      );
      return undefined;
    }
    const entry = query.inView(view, views.of(view));
    return entry === undefined ? undefined : sandboxOf(node, entry);
  }

  async #liveOnNode(node: string, query: Query, signal: AbortSignal | undefined): Promise<Sandbox | undefined> {
    const { source, clients, overlay, logger, liveTimeoutMs } = this.#parts;
    const address = source.nodeCapacity(node)?.address ?? "";
    if (clients === undefined || address === "") {
      return undefined;
    }
    throwIfAborted(signal);
    const askedAt = performance.now();
    const miss = (err: string): void => {
      query.unanswered += 1;
      logger.debug(
        { func: "scale.liveOnNode", node, op: query.op, err },
        `node did not answer a live ${query.op} node=${node} err=${err}`,
      );
    };
    let rows: readonly NodeSandbox[] | undefined;
    try {
      rows = await within(liveTimeoutMs, signal, async (live) => query.ask(clients.forAddress(address), live));
    } catch (error) {
      throwIfAborted(signal);
      miss(describeFailure(clients.failure(error)));
      return undefined;
    }
    // A read that a sibling's hit or the caller ended says nothing about the node.
    throwIfAborted(signal);
    if (rows === undefined) {
      miss(`no answer within ${liveTimeoutMs} ms`);
      return undefined;
    }
    const found = firstOf(rows, ({ entry }) => {
      const now = overlay.resolve(node, entry.id, entry, askedAt);
      return now !== undefined && query.accepts(now, node) ? now : undefined;
    });
    return found === undefined ? undefined : sandboxOf(node, found);
  }
}

async function rowsOf(row: Promise<NodeSandbox | undefined>): Promise<readonly NodeSandbox[]> {
  const known = await row;
  return known === undefined ? [] : [known];
}

function firstOf<I, T>(items: Iterable<I>, pick: (item: I) => T | undefined): T | undefined {
  for (const item of items) {
    const picked = pick(item);
    if (picked !== undefined) {
      return picked;
    }
  }
  return undefined;
}
