import type { InventoryEntry, InventorySource, NodeInventory, NodePools, PoolCapacity } from "@org/scale";
import { createRandom } from "./random.ts";
import { sum } from "./statistics.ts";

/** How big a fleet is. */
export interface FleetSize {
  readonly nodes: number;
  readonly perNode: number;
}

/** Every node offers this pool, and every sandbox came from it. */
export const POOL: PoolCapacity = { template: "rt:24.04", net: "none", size: "small", warm: 5, target: 5 };

/** All sandboxes lie in it. */
export const NAMESPACE = "default";

/** The state of a fleet before and after one per cent of its sandboxes were replaced by others. */
export type Phase = 0 | 1;

/** One row in a hundred differs between the phases, another one on each node. Never the last row of the last node. */
const CHURN_EVERY = 100;
const CHURN_STEP = 7;
const STARTED_MS = Date.UTC(2026, 0, 1);

/** `200x2000`. */
export function sizeName({ nodes, perNode }: FleetSize): string {
  return `${nodes}x${perNode}`;
}

export function nodeName(index: number): string {
  return `10.0.${index >> 8}.${index & 255}:7777`;
}

/** One sandbox of a fleet, as its node knows it. */
export interface Row {
  readonly id: string;
  readonly claimRef: string;
  readonly claimedAt: Date;
  readonly deadline: Date;
}

/** The sandboxes of one node. The same in every process. */
export function rowsOf(node: number, perNode: number, phase: Phase = 0): Row[] {
  const first = createRandom(node * 2 + 1);
  const second = createRandom(node * 2 + 2);
  return Array.from({ length: perNode }, (_row, at) => {
    const a = rowFrom(first, `${node}-${at}`);
    const b = rowFrom(second, `${node}-${at}-b`);
    return phase === 1 && at % CHURN_EVERY === (node * CHURN_STEP) % CHURN_EVERY ? b : a;
  });
}

/** `place` keeps names apart: of two sandboxes of one name, watches show one. */
function rowFrom(random: () => number, place: string): Row {
  const word = (): string =>
    Math.floor(random() * 2 ** 32)
      .toString(16)
      .padStart(8, "0");
  const high = word();
  const claimedAt = new Date(STARTED_MS + Math.floor(random() * 2 ** 22) * 1000);
  return {
    id: `sb_${high}${word()}`,
    claimRef: `${NAMESPACE}/e2b-${high}-${place}`,
    claimedAt,
    deadline: new Date(claimedAt.getTime() + 3_600_000),
  };
}

function entryOf(row: Row): InventoryEntry {
  return Object.freeze({
    name: row.claimRef,
    id: row.id,
    phase: "Running",
    template: POOL.template,
    net: POOL.net,
    size: POOL.size,
    claimRef: row.claimRef,
    addr: undefined,
    deadline: row.deadline,
    claimedAt: row.claimedAt,
    metadata: undefined,
    cpuCount: 1,
    memoryBytes: 536_870_912,
  });
}

/** An inventory in memory that publishes like a poller does: new objects for what changed, the old ones for the rest. */
export class FleetSource implements InventorySource {
  readonly size: FleetSize;
  readonly #nodes: readonly string[];
  readonly #entries: readonly [readonly (readonly InventoryEntry[])[], readonly (readonly InventoryEntry[])[]];
  readonly #listeners = new Set<() => void>();
  #phase: Phase = 0;
  #generation = 1;
  #views = new Map<string, NodeInventory>();
  #capacities: readonly NodePools[] = [];

  constructor(size: FleetSize) {
    this.size = size;
    this.#nodes = Array.from({ length: size.nodes }, (_node, index) => nodeName(index)).sort();
    const before = Array.from({ length: size.nodes }, (_node, index) =>
      Object.freeze(rowsOf(index, size.perNode, 0).map(entryOf)),
    );
    const after = before.map((entries, index) => {
      const rows = rowsOf(index, size.perNode, 1);
      return Object.freeze(
        entries.map((entry, at) => {
          const row = rows[at];
          return row === undefined || row.id === entry.id ? entry : entryOf(row);
        }),
      );
    });
    this.#entries = [before, after];
    this.#publish();
    this.#capacities = this.#freshCapacities();
  }

  get generation(): number {
    return this.#generation;
  }

  /** How many sandboxes a {@link churn} replaces. */
  get replaced(): number {
    const [before, after] = this.#entries;
    return sum(before.map((entries, node) => entries.filter((entry, at) => entry !== after[node]?.[at]).length));
  }

  /** Replaces one per cent of the sandboxes by others, or them by the first ones. */
  churn(): void {
    this.#phase = this.#phase === 0 ? 1 : 0;
    this.#generation += 1;
    this.#publish();
    for (const listener of this.#listeners) {
      listener();
    }
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Publishes a read that found nothing changed: the same content, confirmed now. */
  confirm(): void {
    this.#publish();
  }

  /** Publishes new warm counts. */
  refill(): void {
    this.#generation += 1;
    this.#publish();
    this.#capacities = this.#freshCapacities();
  }

  listNodes(): readonly string[] {
    return this.#nodes;
  }

  nodeInventory(node: string): NodeInventory | undefined {
    return this.#views.get(node);
  }

  nodeCapacity(node: string): NodePools | undefined {
    return this.#views.get(node);
  }

  nodeCapacities(): readonly NodePools[] {
    return this.#capacities;
  }

  /** Every entry of the fleet with its node, node by node. */
  *all(): Iterable<{ readonly node: string; readonly entry: InventoryEntry }> {
    for (const { node, entries } of this.#views.values()) {
      for (const entry of entries) {
        yield { node, entry };
      }
    }
  }

  /** The last entry of the last node: what a scan would find last. */
  last(): InventoryEntry {
    const entry = this.#views.get(nodeName(this.size.nodes - 1))?.entries.at(-1);
    if (entry === undefined) {
      throw new Error("the fleet has no sandboxes");
    }
    return entry;
  }

  #freshCapacities(): readonly NodePools[] {
    return this.#nodes.map((node) => ({ node, address: node, pools: [{ ...POOL }], templates: [] }));
  }

  #publish(): void {
    const asOfMs = performance.now();
    const views = new Map<string, NodeInventory>();
    this.#entries[this.#phase].forEach((entries, index) => {
      const node = nodeName(index);
      views.set(node, Object.freeze({ node, address: node, pools: [POOL], templates: [], entries, asOfMs }));
    });
    this.#views = views;
  }
}
