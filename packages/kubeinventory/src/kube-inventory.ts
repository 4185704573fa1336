import type { InventorySource, NodeInventory, NodePools } from "@org/scale";
import { readNodeInventory } from "./node-inventory.ts";
import { DEFAULT_STALE_AFTER_MS, freshNodes } from "./staleness.ts";

/** Options of {@link KubeInventory}. */
export interface KubeInventoryOptions {
  /** How far a node may be behind the fleet before it is left out, in milliseconds; 0 is the default. @default 90000 */
  readonly staleAfterMs?: number | undefined;
  /** The wall clock in milliseconds. @default Date.now */
  readonly clock?: (() => number) | undefined;
}

interface Known {
  /** What the view was read from: an object that did not change is not read again. */
  readonly object: unknown;
  readonly version: string | undefined;
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
 * Inventory of the `NodeInventory` objects that it was last given. Where they come from is the caller's business. Stale
 * nodes are left out of every read, and come back with their next stamp.
 */
export class KubeInventory implements InventorySource {
  readonly #staleAfterMs: number;
  readonly #clock: () => number;
  #known = new Map<string, Known>();
  #snapshot = nothing;
  #generation = 0;

  /** @throws TypeError when `staleAfterMs` is negative or no number. */
  constructor(options: KubeInventoryOptions = {}) {
    const { staleAfterMs = 0, clock = Date.now } = options;
    if (!(staleAfterMs >= 0)) {
      throw new TypeError("staleAfterMs must be a number of milliseconds from 0");
    }
    this.#staleAfterMs = staleAfterMs === 0 ? DEFAULT_STALE_AFTER_MS : staleAfterMs;
    this.#clock = clock;
  }

  /**
   * Takes the place of everything given before. Objects that do not name their node are left out; of two for one node
   * the later counts.
   */
  replace(objects: Iterable<unknown>): void {
    const known = new Map<string, Known>();
    for (const object of objects) {
      const next = this.#read(object);
      if (next !== undefined) {
        known.set(next.view.node, next);
      }
    }
    const changed =
      known.size !== this.#known.size || [...known].some(([node, { view }]) => this.#known.get(node)?.view !== view);
    if (changed) {
      this.#known = known;
      this.#rebuild();
    }
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
    const nowMs = this.#clock();
    const monotonicMs = performance.now();
    const view = readNodeInventory(object, monotonicMs);
    if (view === undefined) {
      return undefined;
    }
    const version = resourceVersion(object);
    const before = this.#known.get(view.node);
    if (before !== undefined && (before.object === object || (version !== undefined && before.version === version))) {
      return before;
    }
    // The node was read when its publisher stamped the object, by a clock that may run ahead of ours.
    const { publishedAt } = view;
    const asOfMs = publishedAt === undefined ? monotonicMs : monotonicMs - Math.max(0, nowMs - publishedAt.getTime());
    return { object, version, view: Object.freeze({ ...view, asOfMs }) };
  }

  /** The snapshot, after the passing of time was accounted for. */
  #current(): Snapshot {
    if (this.#clock() > this.#snapshot.holdsUntilMs) {
      this.#rebuild();
    }
    return this.#snapshot;
  }

  #rebuild(): void {
    const views = [...this.#known.values()].map(({ view }) => view);
    const nowMs = this.#clock();
    const fresh = freshNodes(views, nowMs, this.#staleAfterMs);
    const stamps = fresh.map(({ publishedAt }) => publishedAt?.getTime() ?? 0);
    // Only while the newest stamp is still to come does the clock alone make nodes stale, and at most up to that stamp.
    const newest = Math.max(...stamps);
    const turns = newest > nowMs ? stamps.map((at) => at + this.#staleAfterMs).filter((turn) => turn < newest) : [];
    const holdsUntilMs = Math.min(...turns);
    const nodes = Object.freeze(fresh.map(({ node }) => node).sort());
    const byNode = new Map<string, NodeInventory>();
    const capacityByNode = new Map<string, NodePools>();
    for (const node of nodes) {
      const view = this.#known.get(node)?.view;
      if (view !== undefined) {
        const { address, pools, templates } = view;
        byNode.set(node, view);
        capacityByNode.set(node, Object.freeze({ node, address, pools, templates }));
      }
    }
    const capacities = Object.freeze([...capacityByNode.values()]);
    this.#snapshot = { nodes, byNode, capacities, capacityByNode, holdsUntilMs };
    this.#generation += 1;
  }
}

function resourceVersion(object: unknown): string | undefined {
  const metadata = typeof object === "object" && object !== null && "metadata" in object ? object.metadata : undefined;
  const version =
    typeof metadata === "object" && metadata !== null && "resourceVersion" in metadata
      ? metadata.resourceVersion
      : undefined;
  return typeof version === "string" && version !== "" ? version : undefined;
}
