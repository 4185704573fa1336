import type { InventoryEntry, Sandbox } from "./domain.ts";
import { compareEntries } from "./fleet-changes.ts";
import { ourWrites } from "./our-writes.ts";
import type { Overlay } from "./overlay.ts";
import type { InventorySource, Logger } from "./ports.ts";
import { readableViews } from "./readable-views.ts";
import { compareSandboxes, sandboxOf } from "./sandbox-view.ts";
import { lowerBound, SortedEdit, spliceSorted } from "./sorted-splice.ts";
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

/** An entry of a node. */
interface Place {
  readonly entry: InventoryEntry;
  readonly sandbox: Sandbox;
}

class NamespaceList {
  readonly #parts: ListParts;
  readonly #namespace: string;
  /** What each node's entries were at the last refresh. */
  #entries = new Map<string, readonly InventoryEntry[]>();
  #generation: number | undefined;
  /** What is listed, in order, and the entries that it was made of. */
  #sandboxes: readonly Sandbox[] = [];
  #listed: readonly InventoryEntry[] = [];
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

  /** Takes a new snapshot in: nodes whose entries are the same array cost a look. */
  #refresh(): void {
    const { source, views, logger } = this.#parts;
    const entriesByNode = new Map<string, readonly InventoryEntry[]>();
    const removed: Place[] = [];
    const added: Place[] = [];
    const compareNode = (node: string, before: readonly InventoryEntry[], entries: readonly InventoryEntry[]): void => {
      if (before === entries) {
        return;
      }
      const { left, right } = compareEntries(before, entries);
      for (const entry of notAmong(left, entries)) {
        removed.push({ entry, sandbox: sandboxOf(node, entry) });
      }
      for (const entry of notAmong(right, before)) {
        added.push({ entry, sandbox: sandboxOf(node, entry) });
      }
    };
    for (const view of readableViews(source, logger)) {
      const entries = views.of(view).inNamespace(this.#namespace);
      entriesByNode.set(view.node, entries);
      compareNode(view.node, this.#entries.get(view.node) ?? [], entries);
    }
    for (const [node, before] of this.#entries) {
      if (!entriesByNode.has(node)) {
        compareNode(node, before, []);
      }
    }
    this.#entries = entriesByNode;
    if (removed.length > 0 || added.length > 0) {
      this.#edit(removed, added);
    }
  }

  #edit(removed: readonly Place[], added: Place[]): void {
    const sandboxes = this.#sandboxes;
    const edit = new SortedEdit(sandboxes.length);
    for (const { entry, sandbox } of removed) {
      let at = lowerBound(sandboxes, (other) => compareSandboxes(other, sandbox) < 0);
      // Equal ones stand together: a node may list a sandbox twice, and one of them stays.
      for (; this.#listed[at] !== entry && at < sandboxes.length; at += 1);
      edit.cut(at);
    }
    added.sort((a, b) => compareSandboxes(a.sandbox, b.sandbox));
    for (const { sandbox } of added) {
      edit.insert(lowerBound(sandboxes, (other) => compareSandboxes(other, sandbox) < 0));
    }
    this.#sandboxes = edit.apply(
      sandboxes,
      added.map((place) => place.sandbox),
    );
    this.#listed = edit.apply(
      this.#listed,
      added.map((place) => place.entry),
    );
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

/** So few are looked for one by one. */
const FEW = 16;

/** Those of some entries, each once, that are not among others: what only moved is, and an object that stands twice. */
function notAmong(some: readonly InventoryEntry[], others: readonly InventoryEntry[]): Iterable<InventoryEntry> {
  if (some.length === 0 || others.length === 0) {
    return new Set(some);
  }
  const known = some.length <= FEW ? undefined : new Set(others);
  return new Set(some.filter((entry) => !(known === undefined ? others.includes(entry) : known.has(entry))));
}
