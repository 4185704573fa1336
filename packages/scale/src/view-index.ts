import type { InventoryEntry, NodeInventory } from "./domain.ts";
import { namespaceOf, qualifiedName } from "./sandbox-view.ts";

/** Ids as nodes make them. Only others may differ from the raw id that a caller asks for. */
const CANONICAL_ID = /^sb_[0-9a-f]{16}$/;

/** Whether an id is spelled the way nodes make them, so that it equals the raw id a caller derives. */
export function isCanonicalId(id: string): boolean {
  return id.length === 19 && CANONICAL_ID.test(id);
}

const NONE: readonly InventoryEntry[] = [];

/** Fast look-ups in one immutable array of entries, each worked out at its first use. */
export class ViewIndex {
  readonly #entries: readonly InventoryEntry[];
  #byId: Map<string, InventoryEntry> | undefined;
  #byName: Map<string, InventoryEntry[]> | undefined;
  #unusual: readonly InventoryEntry[] = NONE;
  #byNamespace: Map<string, InventoryEntry[]> | undefined;

  constructor(entries: readonly InventoryEntry[]) {
    this.#entries = entries;
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
    this.#byName ??= grouped(this.#entries, (entry) => qualifiedName(entry.name));
    return this.#byName.get(qualified) ?? NONE;
  }

  /** The entries of one namespace; of all for the empty one. */
  inNamespace(namespace: string): readonly InventoryEntry[] {
    if (namespace === "") {
      return this.#entries;
    }
    this.#byNamespace ??= grouped(this.#entries, (entry) => namespaceOf(entry.name));
    return this.#byNamespace.get(namespace) ?? NONE;
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

function grouped(
  entries: readonly InventoryEntry[],
  keyOf: (entry: InventoryEntry) => string,
): Map<string, InventoryEntry[]> {
  const groups = new Map<string, InventoryEntry[]>();
  for (const entry of entries) {
    const key = keyOf(entry);
    const group = groups.get(key);
    if (group === undefined) {
      groups.set(key, [entry]);
    } else {
      group.push(entry);
    }
  }
  return groups;
}

/**
 * One {@link ViewIndex} per published array of entries. The array, not the view around it, is the key: a source that
 * publishes an unchanged array with a newer time keeps the work already done.
 */
export class ViewIndexes {
  readonly #indexes = new WeakMap<readonly InventoryEntry[], ViewIndex>();

  of(view: Pick<NodeInventory, "entries">): ViewIndex {
    const known = this.#indexes.get(view.entries);
    if (known !== undefined) {
      return known;
    }
    const index = new ViewIndex(view.entries);
    this.#indexes.set(view.entries, index);
    return index;
  }
}
