import type { InventoryEntry, Sandbox } from "./domain.ts";
import { ourWrites } from "./our-writes.ts";
import type { Overlay } from "./overlay.ts";
import type { InventorySource, Logger } from "./ports.ts";
import { readableViews } from "./readable-views.ts";
import { compareSandboxes, sandboxOf } from "./sandbox-view.ts";
import { spliceSorted } from "./sorted-splice.ts";
import type { ViewIndexes } from "./view-index.ts";

/** Namespaces come from requests: this many sorted lists are kept. */
const MAX_LISTS = 256;

/** What a {@link SandboxList} works with. */
export interface ListParts {
  readonly source: InventorySource;
  readonly logger: Logger;
  readonly overlay: Overlay;
  readonly views: ViewIndexes;
}

/**
 * The fleet's sandboxes in order, by namespace. A list is sorted once; later snapshots cost a pass over it and the
 * sorting of what is new, our own writes are spliced in, and everything between answers with the same array.
 */
export class SandboxList {
  readonly #parts: ListParts;
  readonly #lists = new Map<string, NamespaceList>();

  constructor(parts: ListParts) {
    this.#parts = parts;
  }

  /** Every sandbox for the empty namespace, else those of one. */
  list(namespace: string): readonly Sandbox[] {
    this.#parts.overlay.prune();
    const known = this.#lists.get(namespace);
    const list = known ?? new NamespaceList(this.#parts, namespace);
    if (known === undefined && this.#lists.size >= MAX_LISTS) {
      for (const oldest of this.#lists.keys()) {
        this.#lists.delete(oldest);
        break;
      }
    }
    // Moves the list behind the others: the first one is the one that was not asked for longest.
    this.#lists.delete(namespace);
    this.#lists.set(namespace, list);
    return list.current();
  }
}

/** An entry's place in a list: its view, built once, and the last refresh that met the entry. */
interface Place {
  readonly entry: InventoryEntry;
  readonly sandbox: Sandbox;
  stamp: number;
}

class NamespaceList {
  readonly #parts: ListParts;
  readonly #namespace: string;
  /** Each node's places in the order of its entries. */
  #places = new Map<string, readonly Place[]>();
  #stamp = 0;
  #generation: number | undefined;
  #listed: readonly Place[] = [];
  #sandboxes: readonly Sandbox[] = [];
  #version: number | undefined;
  #current: readonly Sandbox[] = [];

  constructor(parts: ListParts, namespace: string) {
    this.#parts = parts;
    this.#namespace = namespace;
  }

  current(): readonly Sandbox[] {
    const { source, overlay } = this.#parts;
    const generation = source.generation;
    if (generation === this.#generation && overlay.version === this.#version) {
      return this.#current;
    }
    if (generation !== this.#generation) {
      this.#refresh();
      this.#generation = generation;
    }
    this.#current = overlay.size === 0 ? this.#sandboxes : this.#withOurWrites();
    this.#version = overlay.version;
    return this.#current;
  }

  /** Takes a new snapshot in: keeps the places of entries that it shares with the last one. */
  #refresh(): void {
    const { source, views, logger } = this.#parts;
    this.#stamp += 1;
    const placesByNode = new Map<string, readonly Place[]>();
    const added: Place[] = [];
    let total = 0;
    for (const view of readableViews(source, logger)) {
      const places = this.#placesOf(view.node, views.of(view).inNamespace(this.#namespace), added);
      placesByNode.set(view.node, places);
      total += places.length;
    }
    const stamp = this.#stamp;
    const unchanged = added.length === 0 && total === this.#listed.length;
    this.#places = placesByNode;
    if (unchanged) {
      return;
    }
    const stayed =
      total - added.length === this.#listed.length
        ? this.#listed
        : this.#listed.filter((place) => place.stamp === stamp);
    this.#listed = spliceSorted(stayed, [], added, comparePlaces);
    this.#sandboxes = this.#listed.map((place) => place.sandbox);
  }

  /** One node's places, those of its last view where it still has the entry. */
  #placesOf(node: string, entries: readonly InventoryEntry[], added: Place[]): readonly Place[] {
    const before = this.#places.get(node) ?? [];
    const stamp = this.#stamp;
    const places: Place[] = [];
    let byEntry: Map<InventoryEntry, Place> | undefined;
    let next = 0;
    for (const entry of entries) {
      // Most views keep most of the order.
      let place = before[next];
      if (place?.entry === entry) {
        next += 1;
      } else {
        byEntry ??= new Map(before.map((known) => [known.entry, known]));
        place = byEntry.get(entry);
      }
      if (place === undefined) {
        place = { entry, sandbox: sandboxOf(node, entry), stamp };
        added.push(place);
      } else if (place.stamp === stamp) {
        // The same object twice is one sandbox.
        continue;
      }
      place.stamp = stamp;
      places.push(place);
    }
    return places;
  }

  #withOurWrites(): readonly Sandbox[] {
    const { source, overlay, views } = this.#parts;
    const removed: Sandbox[] = [];
    const inserted: Sandbox[] = [];
    const put = (list: Sandbox[], sandbox: Sandbox): void => {
      if (this.#namespace === "" || sandbox.namespace === this.#namespace) {
        list.push(sandbox);
      }
    };
    for (const node of overlay.nodes()) {
      const view = source.nodeInventory(node);
      if (view === undefined) {
        continue;
      }
      for (const { listed, now } of ourWrites(overlay, views, view)) {
        if (listed !== undefined) {
          put(removed, sandboxOf(node, listed));
        }
        if (now !== undefined) {
          put(inserted, sandboxOf(node, now));
        }
      }
    }
    return spliceSorted(this.#sandboxes, removed, inserted, compareSandboxes);
  }
}

function comparePlaces(a: Place, b: Place): number {
  return compareSandboxes(a.sandbox, b.sandbox);
}
