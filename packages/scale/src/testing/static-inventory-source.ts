import type { InventoryEntry, NodeInventory, NodePools, PoolCapacity, PromotedTemplate } from "../domain.ts";
import type { InventorySource } from "../ports.ts";

/** What {@link StaticInventorySource.put} takes. Only the node key is needed. */
export interface StaticNode {
  readonly node: string;
  /**
   * Where the node answers; empty means not schedulable.
   * @default the node key
   */
  readonly address?: string | undefined;
  readonly pools?: readonly PoolCapacity[] | undefined;
  readonly templates?: readonly PromotedTemplate[] | undefined;
  readonly entries?: readonly InventoryEntry[] | undefined;
  /**
   * When the view was read, in milliseconds of `performance.now()`.
   * @default the moment of the call
   */
  readonly asOfMs?: number | undefined;
  readonly publishedAt?: Date | undefined;
}

/**
 * An inventory held in memory, for tests and for fleets that never change. Views are copied and deeply frozen on
 * `put`, so what a reader holds can neither change nor be changed.
 */
export class StaticInventorySource implements InventorySource {
  readonly #views = new Map<string, NodeInventory>();
  readonly #partitioned = new Set<string>();
  readonly #listeners = new Set<() => void>();
  #generation = 0;
  #applyCount = 0;
  #nodes: readonly string[] | undefined;
  #capacities: readonly NodePools[] | undefined;

  constructor(nodes: Iterable<StaticNode> = []) {
    for (const node of nodes) {
      this.put(node);
    }
  }

  get generation(): number {
    return this.#generation;
  }

  /** How many views were put so far. */
  get applyCount(): number {
    return this.#applyCount;
  }

  /** How many nodes are held, the partitioned ones included. */
  get objectCount(): number {
    return this.#views.size;
  }

  /** Publishes one node's view in place of its former one. */
  put(node: StaticNode): void {
    const view: NodeInventory = structuredClone({
      node: node.node,
      address: node.address ?? node.node,
      pools: node.pools ?? [],
      templates: node.templates ?? [],
      entries: node.entries ?? [],
      asOfMs: node.asOfMs ?? performance.now(),
      publishedAt: node.publishedAt,
    });
    this.#views.set(view.node, deepFreeze(view));
    this.#applyCount += 1;
    this.#changed();
  }

  /** Forgets a node. */
  remove(node: string): void {
    this.#partitioned.delete(node);
    if (this.#views.delete(node)) {
      this.#changed();
    }
  }

  /** Makes a node listed but unreadable, or readable again. */
  partition(node: string, partitioned = true): void {
    if (partitioned) {
      this.#partitioned.add(node);
    } else {
      this.#partitioned.delete(node);
    }
    this.#changed();
  }

  listNodes(): readonly string[] {
    this.#nodes ??= Object.freeze([...this.#views.keys()].sort());
    return this.#nodes;
  }

  nodeInventory(node: string): NodeInventory | undefined {
    return this.#partitioned.has(node) ? undefined : this.#views.get(node);
  }

  nodeCapacity(node: string): NodePools | undefined {
    return this.nodeInventory(node);
  }

  nodeCapacities(): readonly NodePools[] {
    this.#capacities ??= Object.freeze(
      this.listNodes().flatMap((node) => {
        const view = this.nodeCapacity(node);
        return view === undefined ? [] : [view];
      }),
    );
    return this.#capacities;
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  #changed(): void {
    this.#generation += 1;
    this.#nodes = undefined;
    this.#capacities = undefined;
    for (const listener of this.#listeners) {
      listener();
    }
  }
}

function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !(value instanceof Date)) {
    for (const member of Object.values(value)) {
      deepFreeze(member);
    }
    Object.freeze(value);
  }
  return value;
}
