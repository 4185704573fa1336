import { setImmediate as nextTurn } from "node:timers/promises";
import type { InventoryEntry, NodeInventory } from "./domain.ts";
import { compareEntries } from "./fleet-changes.ts";
import type { InventorySource } from "./ports.ts";
import { isCanonicalId } from "./view-index.ts";

/** An entry and the node that lists it. */
export interface Located {
  readonly node: string;
  readonly entry: InventoryEntry;
}

/** One place for nearly every id; several nodes may list the same. */
type Places = Located | readonly Located[];

/** One map of a whole fleet would hold the event loop whenever it grows. */
const SHARDS = 256;
/** How long a refresh may hold the event loop at a time, in milliseconds. */
const STRETCH_MS = 4;
const NONE: readonly never[] = [];

/**
 * Where each id of the fleet is listed. Made once and then kept up with what changed: of the nodes that list the same
 * nothing is read, of the others what came and went. Costs nothing until it is asked for.
 */
export class FleetIds {
  readonly #source: InventorySource;
  readonly #places = Array.from({ length: SHARDS }, () => new Map<string, Places>());
  readonly #seen = new Map<string, readonly InventoryEntry[]>();
  /** Per node, how many entries have ids that only a predicate can compare. */
  readonly #unusual = new Map<string, number>();
  #generation: number | undefined;
  #refreshing: Promise<void> | undefined;

  constructor(source: InventorySource) {
    this.#source = source;
  }

  /** Whether this view is the one that was last taken in. */
  knows(view: NodeInventory): boolean {
    return this.#seen.get(view.node) === view.entries;
  }

  /** Where this id was listed at the last refresh. */
  at(id: string): readonly Located[] {
    const places = this.#mapOf(id).get(id);
    return places === undefined ? NONE : isOne(places) ? [places] : places;
  }

  /** Nodes that list ids which only a predicate can compare. */
  unusualNodes(): Iterable<string> {
    return this.#unusual.keys();
  }

  /** Takes the current snapshot in. At once when nothing changed, else in short stretches. */
  async refresh(): Promise<void> {
    const wanted = this.#source.generation;
    while (this.#generation === undefined || this.#generation < wanted) {
      this.#refreshing ??= this.#takeIn().finally(() => {
        this.#refreshing = undefined;
      });
      await this.#refreshing;
    }
  }

  async #takeIn(): Promise<void> {
    const source = this.#source;
    const generation = source.generation;
    let began = performance.now();
    for (const node of new Set([...source.listNodes(), ...this.#seen.keys()])) {
      const entries = source.nodeInventory(node)?.entries;
      if (this.#seen.get(node) === entries) {
        continue;
      }
      this.#apply(node, entries);
      if (performance.now() - began >= STRETCH_MS) {
        await nextTurn();
        began = performance.now();
      }
    }
    this.#generation = generation;
  }

  #apply(node: string, entries: readonly InventoryEntry[] | undefined): void {
    const { left, right } = compareEntries(this.#seen.get(node) ?? NONE, entries ?? NONE);
    for (const entry of left) {
      this.#remove(node, entry);
    }
    for (const entry of right) {
      this.#add(node, entry);
    }
    if (entries === undefined) {
      this.#seen.delete(node);
    } else {
      this.#seen.set(node, entries);
    }
  }

  /** Ids differ most at their ends. */
  #mapOf(id: string): Map<string, Places> {
    const shard = ((id.charCodeAt(id.length - 1) & 15) << 4) | (id.charCodeAt(id.length - 2) & 15);
    return this.#places[shard] as Map<string, Places>;
  }

  #add(node: string, entry: InventoryEntry): void {
    const { id } = entry;
    if (id === "") {
      return;
    }
    const map = this.#mapOf(id);
    const places = map.get(id);
    const place = { node, entry };
    // A node that lists an id more than once has its last entry counted, and costs no more than any other.
    const others = places === undefined ? NONE : (isOne(places) ? [places] : places).filter((one) => one.node !== node);
    map.set(id, others.length === 0 ? place : [...others, place]);
    this.#count(node, id, 1);
  }

  #remove(node: string, entry: InventoryEntry): void {
    const { id } = entry;
    const map = this.#mapOf(id);
    const places = map.get(id);
    if (places === undefined) {
      return;
    }
    const all = isOne(places) ? [places] : places;
    const which = all.findIndex((place) => place.node === node && place.entry === entry);
    const left = which === -1 ? all : all.toSpliced(which, 1);
    const [only] = left;
    if (only === undefined) {
      map.delete(id);
    } else {
      map.set(id, left.length === 1 ? only : left);
    }
    this.#count(node, id, -1);
  }

  #count(node: string, id: string, by: 1 | -1): void {
    if (isCanonicalId(id)) {
      return;
    }
    const count = (this.#unusual.get(node) ?? 0) + by;
    if (count === 0) {
      this.#unusual.delete(node);
    } else {
      this.#unusual.set(node, count);
    }
  }
}

function isOne(places: Places): places is Located {
  return !Array.isArray(places);
}
