import { setImmediate as nextTurn } from "node:timers/promises";
import type { NodeInventory, Sandbox } from "./domain.ts";
import { abortedError, throwIfAborted } from "./detached-work.ts";
import { ScaleError } from "./errors.ts";
import { firstHit, within } from "./first-hit.ts";
import { describeFailure } from "./node-failures.ts";
import { firstOf, HeldQuery, IdQuery, NameQuery } from "./finder-query.ts";
import type { FinderQuery } from "./finder-query.ts";
import { FleetIds } from "./fleet-ids.ts";
import type { NodeIndex } from "./node-index.ts";
import type { Overlay } from "./overlay.ts";
import type { InventorySource, Logger, NodeClients, NodeSandbox } from "./ports.ts";
import { claimKey, nameKey } from "./node-index.ts";
import { RecentHits } from "./recent-hits.ts";
import { sandboxOf } from "./sandbox-view.ts";
import type { ViewIndexes } from "./view-index.ts";

/** A view's maps take about a millisecond per ten thousand entries: so many are built before others get a turn. */
const BUILDS_PER_TURN = 8;

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
  readonly #ids: FleetIds;
  readonly #recent: RecentHits;

  constructor(parts: FinderParts) {
    this.#parts = parts;
    this.#recent = new RecentHits(parts.source, parts.overlay);
    this.#ids = new FleetIds(parts.source);
  }

  byName(namespace: string, name: string, signal: AbortSignal | undefined): Promise<Sandbox> {
    const recent = signal?.aborted === true ? undefined : this.#recent.lookup(nameKey(namespace, name));
    if (recent !== undefined) {
      return recent.found;
    }
    const query = new NameQuery(this.#parts.overlay, namespace, name);
    return this.#find(query, signal, () => {
      const { unanswered } = query;
      return new ScaleError("not_found", `sandbox "${namespace}/${name}" not found`, { unanswered });
    });
  }

  byClaimId(
    namespace: string,
    id: string,
    match: (claimId: string) => boolean,
    signal: AbortSignal | undefined,
  ): Promise<Sandbox> {
    const recent = signal?.aborted === true ? undefined : this.#recent.lookup(claimKey(namespace, id));
    if (recent !== undefined && match(recent.sandbox.id)) {
      return recent.found;
    }
    const query = new IdQuery(this.#parts.overlay, namespace, id, match);
    return this.#find(query, signal, () => {
      const { unanswered } = query;
      return new ScaleError("not_found", `sandbox "${id}" not found`, { id, unanswered });
    });
  }

  /** A sandbox of this name that passes, in any inventory: one name can hold several claims. */
  listedByName(
    namespace: string,
    name: string,
    passes: (sandbox: Sandbox) => boolean,
    signal: AbortSignal | undefined,
  ): Promise<Sandbox | undefined> {
    return this.#sweep(new NameQuery(this.#parts.overlay, namespace, name, passes), signal);
  }

  /** What a sandbox's node lists of it now, when that passes. */
  listed(held: Sandbox, passes: (sandbox: Sandbox) => boolean): Sandbox | undefined {
    return this.#onNode(held.node, new HeldQuery(this.#parts.overlay, held, passes));
  }

  /** What a sandbox's node says of it, when that passes. A node that does not answer in time does not hold it. */
  async live(
    held: Sandbox,
    passes: (sandbox: Sandbox) => boolean,
    signal: AbortSignal | undefined,
  ): Promise<Sandbox | undefined> {
    const query = new HeldQuery(this.#parts.overlay, held, passes);
    const view = this.#parts.source.nodeInventory(held.node);
    return isGone(view, held.node, query) ? undefined : this.#liveOnNode(held.node, query, signal);
  }

  /** Where the node is known and its inventory shows the sandbox, nothing is waited for. */
  async #find(query: FinderQuery, signal: AbortSignal | undefined, notFound: () => ScaleError): Promise<Sandbox> {
    throwIfAborted(signal);
    const { index, source } = this.#parts;
    const known = index.lookup(query.key);
    let asked: string | undefined;
    if (known !== undefined) {
      const view = source.nodeInventory(known);
      if (isGone(view, known, query)) {
        throw notFound();
      }
      const listed = this.#inView(view, known, query);
      if (listed !== undefined) {
        this.#recent.keep(query.key, listed);
        return listed;
      }
      if (view !== undefined) {
        asked = known;
        const live = await this.#liveOnNode(known, query, signal);
        if (live !== undefined) {
          return live;
        }
      }
    }
    const listed = query instanceof IdQuery ? this.#sweepIds(query, signal) : this.#sweep(query, signal);
    const found = (await listed) ?? (await this.#askAll(query, asked, signal));
    if (found === undefined) {
      throw notFound();
    }
    index.remember(query.key, found.node);
    return found;
  }

  /** Asks every node but the one that was asked before. */
  async #askAll(
    query: FinderQuery,
    asked: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Sandbox | undefined> {
    const { clients, source, concurrency } = this.#parts;
    if (clients === undefined) {
      return undefined;
    }
    const others = source.listNodes().filter((node) => node !== asked);
    try {
      return await firstHit(others, concurrency, (node, stop) => this.#liveOnNode(node, query, stop), signal);
    } catch (error) {
      throw signal?.aborted === true ? abortedError(signal) : error;
    }
  }

  /** Looks where an id is listed, where we wrote, and where ids are that only a predicate can compare. */
  async #sweepIds(query: IdQuery, signal: AbortSignal | undefined): Promise<Sandbox | undefined> {
    const { source, overlay } = this.#parts;
    const ids = this.#ids;
    await ids.refresh();
    throwIfAborted(signal);
    for (const { node, entry } of ids.at(query.id)) {
      const view = source.nodeInventory(node);
      const known = view !== undefined && ids.knows(view);
      const now = known ? query.resolve(view, entry.id, entry) : undefined;
      const found = now === undefined && !known ? this.#inView(view, node, query) : now && sandboxOf(node, now);
      if (found !== undefined) {
        return found;
      }
    }
    const others = new Set(ids.unusualNodes());
    for (const node of overlay.nodes()) {
      if (overlay.wroteTo(node, query.id) || overlay.unusualOn(node).size > 0) {
        others.add(node);
      }
    }
    return this.#lookThrough(others, query, signal);
  }

  /** Looks through every inventory. */
  #sweep(query: FinderQuery, signal: AbortSignal | undefined): Promise<Sandbox | undefined> {
    return this.#lookThrough(this.#parts.source.listNodes(), query, signal);
  }

  /** Works out missing maps a few at a time, so that a big fleet holds nobody up. */
  async #lookThrough(
    nodes: Iterable<string>,
    query: FinderQuery,
    signal: AbortSignal | undefined,
  ): Promise<Sandbox | undefined> {
    const { source, views } = this.#parts;
    let built = 0;
    for (const node of nodes) {
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

  #onNode(node: string, query: FinderQuery): Sandbox | undefined {
    return this.#inView(this.#parts.source.nodeInventory(node), node, query);
  }

  #inView(view: NodeInventory | undefined, node: string, query: FinderQuery): Sandbox | undefined {
    const { views, logger } = this.#parts;
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

  async #liveOnNode(node: string, query: FinderQuery, signal: AbortSignal | undefined): Promise<Sandbox | undefined> {
    const { source, clients, overlay, logger, liveTimeoutMs } = this.#parts;
    const pools = source.nodeCapacity(node);
    if (clients === undefined || pools?.address === "") {
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
    if (pools === undefined) {
      // Listed and unreadable, or gone since it was listed: it may hold the sandbox all the same.
      miss("its inventory is unavailable");
      return undefined;
    }
    const { address } = pools;
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

function isGone(view: NodeInventory | undefined, node: string, query: FinderQuery): boolean {
  return query.goneFrom(node, view?.asOfMs ?? Number.NEGATIVE_INFINITY);
}
