import type { InventoryEntry, NodeInventory, Sandbox } from "./domain.ts";
import { compareSandboxes, qualifiedName, sandboxOf } from "./sandbox-view.ts";

/** Ids as nodes make them. Only others may differ from the raw id that a caller asks for. */
const CANONICAL_ID = /^sb_[0-9a-f]{16}$/;

/** Whether an id is spelled the way nodes make them, so that it equals the raw id a caller derives. */
export function isCanonicalId(id: string): boolean {
  return id.length === 19 && CANONICAL_ID.test(id);
}

const NONE: readonly InventoryEntry[] = [];

/** Fast look-ups in one immutable array of entries, each worked out at its first use. */
export class ViewIndex {
  readonly #node: string;
  readonly #entries: readonly InventoryEntry[];
  #byId: Map<string, InventoryEntry> | undefined;
  #byName: Map<string, readonly InventoryEntry[]> | undefined;
  #unusual: readonly InventoryEntry[] = NONE;
  #sorted: readonly Sandbox[] | undefined;

  constructor(node: string, entries: readonly InventoryEntry[]) {
    this.#node = node;
    this.#entries = entries;
  }

  get node(): string {
    return this.#node;
  }

  /** Whether the next look-up by id (or by name) costs no more than a map read. */
  get idsReady(): boolean {
    return this.#byId !== undefined;
  }

  get namesReady(): boolean {
    return this.#byName !== undefined;
  }

  byId(id: string): InventoryEntry | undefined {
    return this.#ids().get(id);
  }

  /** Entries whose ids only a caller's predicate can compare. */
  unusual(): readonly InventoryEntry[] {
    this.#ids();
    return this.#unusual;
  }

  /** All entries of a qualified name, in the node's order: a name may be claimed more than once. */
  byName(qualified: string): readonly InventoryEntry[] {
    this.#byName ??= namesOf(this.#entries);
    return this.#byName.get(qualified) ?? NONE;
  }

  /** The view's sandboxes in list order. */
  sorted(sandboxes: SandboxViews): readonly Sandbox[] {
    this.#sorted ??= this.#entries.map((entry) => sandboxes.of(this.#node, entry)).sort(compareSandboxes);
    return this.#sorted;
  }

  #ids(): Map<string, InventoryEntry> {
    if (this.#byId !== undefined) {
      return this.#byId;
    }
    const byId = new Map<string, InventoryEntry>();
    const unusual: InventoryEntry[] = [];
    for (const entry of this.#entries) {
      if (entry.id === "") {
        continue;
      }
      byId.set(entry.id, entry);
      if (!isCanonicalId(entry.id)) {
        unusual.push(entry);
      }
    }
    this.#byId = byId;
    this.#unusual = unusual.length === 0 ? NONE : unusual;
    return byId;
  }
}

function namesOf(entries: readonly InventoryEntry[]): Map<string, InventoryEntry[]> {
  const byName = new Map<string, InventoryEntry[]>();
  for (const entry of entries) {
    const name = qualifiedName(entry.name);
    const known = byName.get(name);
    if (known === undefined) {
      byName.set(name, [entry]);
    } else {
      known.push(entry);
    }
  }
  return byName;
}

/** Built views per entry. Entries are immutable, so a view is built once however many snapshots share the entry. */
export class SandboxViews {
  readonly #views = new WeakMap<InventoryEntry, Sandbox>();

  of(node: string, entry: InventoryEntry): Sandbox {
    const known = this.#views.get(entry);
    if (known !== undefined && known.node === node) {
      return known;
    }
    const view = sandboxOf(node, entry);
    this.#views.set(entry, view);
    return view;
  }
}

/**
 * One {@link ViewIndex} per published array of entries. The array, not the view around it, is the key: a source that
 * publishes an unchanged array with a newer time keeps the work already done.
 */
export class ViewIndexes {
  readonly #indexes = new WeakMap<readonly InventoryEntry[], ViewIndex>();

  of(view: NodeInventory): ViewIndex {
    const known = this.#indexes.get(view.entries);
    if (known !== undefined && known.node === view.node) {
      return known;
    }
    const index = new ViewIndex(view.node, view.entries);
    this.#indexes.set(view.entries, index);
    return index;
  }
}
