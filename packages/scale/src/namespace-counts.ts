import type { InventoryEntry } from "./domain.ts";
import type { Overlay } from "./overlay.ts";
import type { InventorySource } from "./ports.ts";
import { namespaceOf } from "./sandbox-view.ts";
import type { ViewIndexes } from "./view-index.ts";

const SLASH = "/".charCodeAt(0);
/** Beyond so many writes that nobody asked about, everything is counted anew instead. */
const MAX_NOTED = 65_536;

/** What {@link NamespaceCounts} work with. */
export interface CountParts {
  readonly source: InventorySource;
  readonly overlay: Overlay;
  readonly views: ViewIndexes;
}

/** What one node adds to the counts. */
interface NodeCount {
  entries: readonly InventoryEntry[];
  asOfMs: number;
  /** Entries of the view by namespace. */
  listed: ReadonlyMap<string, number>;
  /** The namespace and the sandbox more or less in it that our own writes to an id make. */
  readonly writes: Map<string, { readonly namespace: string; readonly weight: 1 | -1 }>;
}

/**
 * How many sandboxes each namespace has. Counts follow the views that changed and the single writes of ours, so that a
 * question costs nothing while neither happens. Does no work at all before the first question.
 */
export class NamespaceCounts {
  readonly #parts: CountParts;
  readonly #nodes = new Map<string, NodeCount>();
  readonly #totals = new Map<string, number>();
  /** Writes since the last question. */
  readonly #noted = new Map<string, Set<string>>();
  #notedSize = 0;
  #generation: number | undefined;
  #asked = false;

  constructor(parts: CountParts) {
    this.#parts = parts;
    parts.overlay.onChange((node, id) => this.#note(node, id));
  }

  count(namespace: string): number {
    const { source, overlay } = this.#parts;
    this.#asked = true;
    overlay.prune();
    if (this.#notedSize > MAX_NOTED) {
      this.#forgetAll();
    }
    if (source.generation !== this.#generation) {
      this.#followViews();
    }
    this.#followWrites();
    return this.#totals.get(namespace) ?? 0;
  }

  #note(node: string, id: string): void {
    if (!this.#asked || this.#notedSize > MAX_NOTED) {
      return;
    }
    let ids = this.#noted.get(node);
    if (ids === undefined) {
      ids = new Set();
      this.#noted.set(node, ids);
    }
    this.#notedSize += ids.has(id) ? 0 : 1;
    ids.add(id);
  }

  #forgetAll(): void {
    this.#nodes.clear();
    this.#totals.clear();
    this.#noted.clear();
    this.#notedSize = 0;
    this.#generation = undefined;
  }

  #followViews(): void {
    const { source, overlay } = this.#parts;
    const generation = source.generation;
    const gone = new Set(this.#nodes.keys());
    for (const node of source.listNodes()) {
      const view = source.nodeInventory(node);
      if (view === undefined) {
        continue;
      }
      gone.delete(node);
      const known = this.#nodes.get(node) ?? { entries: [], asOfMs: Number.NaN, listed: new Map(), writes: new Map() };
      if (known.entries === view.entries && known.asOfMs === view.asOfMs) {
        continue;
      }
      this.#nodes.set(node, known);
      if (known.entries !== view.entries) {
        const listed = countByNamespace(view.entries);
        this.#addAll(known.listed, -1);
        this.#addAll(listed, 1);
        known.listed = listed;
        known.entries = view.entries;
      }
      known.asOfMs = view.asOfMs;
      // A write counts against a view that is older: each is weighed again.
      for (const id of known.writes.keys()) {
        this.#note(node, id);
      }
      for (const id of overlay.idsOn(node)) {
        this.#note(node, id);
      }
    }
    for (const node of gone) {
      const known = this.#nodes.get(node);
      this.#nodes.delete(node);
      this.#addAll(known?.listed ?? new Map(), -1);
      for (const { namespace, weight } of known?.writes.values() ?? []) {
        this.#add(namespace, -weight);
      }
    }
    this.#generation = generation;
  }

  #followWrites(): void {
    const { source, overlay, views } = this.#parts;
    for (const [node, ids] of this.#noted) {
      const view = source.nodeInventory(node);
      const known = this.#nodes.get(node);
      if (view === undefined || known === undefined) {
        continue;
      }
      const index = views.of(view);
      for (const id of ids) {
        const listed = index.byId(id);
        const now = overlay.resolve(node, id, listed, view.asOfMs);
        const before = known.writes.get(id);
        if (before !== undefined) {
          this.#add(before.namespace, -before.weight);
          known.writes.delete(id);
        }
        if ((listed === undefined) !== (now === undefined)) {
          const weight = now === undefined ? -1 : 1;
          const namespace = namespaceOf((now ?? listed)?.name ?? "");
          this.#add(namespace, weight);
          known.writes.set(id, { namespace, weight });
        }
      }
    }
    this.#noted.clear();
    this.#notedSize = 0;
  }

  #addAll(counts: ReadonlyMap<string, number>, sign: 1 | -1): void {
    for (const [namespace, count] of counts) {
      this.#add(namespace, sign * count);
    }
  }

  #add(namespace: string, by: number): void {
    const total = (this.#totals.get(namespace) ?? 0) + by;
    if (total === 0) {
      this.#totals.delete(namespace);
    } else {
      this.#totals.set(namespace, total);
    }
  }
}

function countByNamespace(entries: readonly InventoryEntry[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  let namespace: string | undefined;
  let run = 0;
  const close = (): void => {
    if (namespace !== undefined) {
      counts.set(namespace, (counts.get(namespace) ?? 0) + run);
    }
  };
  for (const { name } of entries) {
    // Neighbours often share their namespace, and then no text is cut out.
    if (namespace !== undefined && name.startsWith(namespace) && name.charCodeAt(namespace.length) === SLASH) {
      run += 1;
      continue;
    }
    close();
    namespace = namespaceOf(name);
    run = 1;
  }
  close();
  return counts;
}
