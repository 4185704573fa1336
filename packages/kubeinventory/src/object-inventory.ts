import type { InventorySource, NodeInventory, NodePools } from "@org/scale";
import type { EntryList } from "./entry-list.ts";
import { newEntryList, nodeNameOf, readNodeInventory } from "./node-inventory.ts";
import { DEFAULT_STALE_AFTER_MS, freshNodes } from "./staleness.ts";
import { versionOf } from "./watch-event.ts";

/** Options of {@link ObjectInventory}. */
export interface ObjectInventoryOptions {
  /** How far a node may be behind the fleet before it is left out, in milliseconds; 0 is the default. @default 90000 */
  readonly staleAfterMs?: number | undefined;
  /** The wall clock in milliseconds. @default Date.now */
  readonly clock?: (() => number) | undefined;
}

interface Known {
  /** What the view was read from, by its version where it has one: it is not read again. */
  readonly object: unknown;
  readonly version: string | undefined;
  readonly entries: EntryList;
  readonly view: NodeInventory;
}

interface Snapshot {
  readonly nodes: readonly string[];
  readonly byNode: ReadonlyMap<string, NodeInventory>;
  readonly capacities: readonly NodePools[];
  readonly capacityByNode: ReadonlyMap<string, NodePools>;
  readonly holdsUntilMs: number;
}

const nothing: Snapshot = {
  nodes: [],
  byNode: new Map(),
  capacities: [],
  capacityByNode: new Map(),
  holdsUntilMs: Infinity,
};

/**
 * A publisher asks its node first and stamps the object then. What we did in between the object does not show, so that
 * it counts as this much older than its stamp, in milliseconds.
 */
const READ_BEFORE_STAMP_MS = 1000;

/**
 * Inventory of the `NodeInventory` objects that it is given. Where they come from is the caller's business. Stale nodes
 * are left out of every read, and come back with their next stamp.
 */
export class ObjectInventory implements InventorySource {
  readonly #staleAfterMs: number;
  readonly #clock: () => number;
  #known = new Map<string, Known>();
  readonly #listeners = new Set<() => void>();
  #snapshot = nothing;
  #generation = 0;

  /** @throws TypeError when `staleAfterMs` is negative or no number. */
  constructor(options: ObjectInventoryOptions = {}) {
    const { staleAfterMs = 0, clock = Date.now } = options;
    if (!(staleAfterMs >= 0)) {
      throw new TypeError("staleAfterMs must be a number of milliseconds from 0");
    }
    this.#staleAfterMs = staleAfterMs === 0 ? DEFAULT_STALE_AFTER_MS : staleAfterMs;
    this.#clock = clock;
  }

  /**
   * Takes the place of everything given before, and publishes it. Objects that do not name their node are left out; of
   * two for one node the later counts.
   */
  replace(objects: Iterable<unknown>): void {
    const known = new Map<string, Known>();
    for (const object of objects) {
      const next = this.#read(object);
      if (next !== undefined) {
        known.set(next.view.node, next);
      }
    }
    this.#known = known;
    this.publish();
  }

  /** Takes one object in. Readers see it once it is published. */
  put(object: unknown): void {
    const next = this.#read(object);
    if (next !== undefined) {
      this.#known.set(next.view.node, next);
    }
  }

  /** Takes a node out. Readers see it once it is published. */
  remove(node: string): void {
    this.#known.delete(node);
  }

  /** Shows readers what was put and removed, all at once. */
  publish(): void {
    const previous = this.#snapshot;
    const { next, sameNodes, samePools, sameEntries } = this.#build(previous);
    this.#snapshot = next;
    if (sameNodes && samePools && sameEntries) {
      return;
    }
    this.#generation += 1;
    for (const listener of this.#listeners) {
      listener();
    }
  }

  /** Returns the unsubscribe function. A node that gets stale by the clock alone is told of at the next read. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  get generation(): number {
    this.#current();
    return this.#generation;
  }

  listNodes(): readonly string[] {
    return this.#current().nodes;
  }

  nodeInventory(node: string): NodeInventory | undefined {
    return this.#current().byNode.get(node);
  }

  nodeCapacity(node: string): NodePools | undefined {
    return this.#current().capacityByNode.get(node);
  }

  nodeCapacities(): readonly NodePools[] {
    return this.#current().capacities;
  }

  #read(object: unknown): Known | undefined {
    const node = nodeNameOf(object);
    const before = node === undefined ? undefined : this.#known.get(node);
    const version = versionOf(object);
    if (before !== undefined && (version === undefined ? before.object === object : before.version === version)) {
      return before;
    }
    const nowMs = this.#clock();
    const monotonicMs = performance.now();
    const entries = before?.entries ?? newEntryList();
    const view = readNodeInventory(object, monotonicMs, entries);
    if (view === undefined) {
      return undefined;
    }
    // The stamp is of a clock that may run ahead of ours.
    const { publishedAt } = view;
    const age = publishedAt === undefined ? 0 : Math.max(0, nowMs - publishedAt.getTime()) + READ_BEFORE_STAMP_MS;
    const dated = { ...view, ...unlessSame(before?.view, view), asOfMs: monotonicMs - age };
    return { object: version === undefined ? object : undefined, version, entries, view: Object.freeze(dated) };
  }

  /** The snapshot, after the passing of time was accounted for. */
  #current(): Snapshot {
    if (this.#clock() > this.#snapshot.holdsUntilMs) {
      this.publish();
    }
    return this.#snapshot;
  }

  #build(previous: Snapshot): { next: Snapshot; sameNodes: boolean; samePools: boolean; sameEntries: boolean } {
    const nowMs = this.#clock();
    const views = [...this.#known.values()].map(({ view }) => view);
    const fresh = freshNodes(views, nowMs, this.#staleAfterMs);
    const names = fresh.map(({ node }) => node);
    const sameNodes = names.length === previous.nodes.length && names.every((node) => previous.byNode.has(node));
    const nodes = sameNodes ? previous.nodes : Object.freeze(names.sort());
    const byNode = new Map<string, NodeInventory>();
    let sameEntries = true;
    let samePools = true;
    for (const view of fresh) {
      byNode.set(view.node, view);
      const before = previous.byNode.get(view.node);
      sameEntries &&= before?.entries === view.entries;
      samePools &&= before !== undefined && samePoolsOf(before, view);
    }
    const holdsUntilMs = this.#holdsUntil(fresh, nowMs);
    if (sameNodes && samePools) {
      const { capacities, capacityByNode } = previous;
      return { next: { nodes, byNode, capacities, capacityByNode, holdsUntilMs }, sameNodes, samePools, sameEntries };
    }
    const capacityByNode = new Map<string, NodePools>();
    for (const node of nodes) {
      const view = byNode.get(node);
      if (view !== undefined) {
        const { address, pools, templates } = view;
        capacityByNode.set(node, Object.freeze({ node, address, pools, templates }));
      }
    }
    const capacities = Object.freeze([...capacityByNode.values()]);
    return { next: { nodes, byNode, capacities, capacityByNode, holdsUntilMs }, sameNodes, samePools, sameEntries };
  }

  /** Only while the newest stamp is still to come does the clock alone make nodes stale, and at most up to that stamp. */
  #holdsUntil(fresh: readonly NodeInventory[], nowMs: number): number {
    const stamps = fresh.map(({ publishedAt }) => publishedAt?.getTime() ?? 0);
    const newest = stamps.reduce((a, b) => Math.max(a, b), 0);
    if (newest <= nowMs) {
      return Infinity;
    }
    return stamps
      .map((at) => at + this.#staleAfterMs)
      .filter((turn) => turn < newest)
      .reduce((a, b) => Math.min(a, b), Infinity);
  }
}

function samePoolsOf(a: NodePools, b: NodePools): boolean {
  return a.pools === b.pools && a.templates === b.templates && a.address === b.address;
}

/** Pools and templates that say what they said before keep their arrays. */
function unlessSame(before: NodePools | undefined, next: NodePools): Pick<NodePools, "pools" | "templates"> {
  const pools = JSON.stringify(before?.pools) === JSON.stringify(next.pools) ? before?.pools : undefined;
  const templates =
    JSON.stringify(before?.templates) === JSON.stringify(next.templates) ? before?.templates : undefined;
  return { pools: pools ?? next.pools, templates: templates ?? next.templates };
}
