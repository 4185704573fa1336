import type { Sandbox } from "./domain.ts";
import type { Overlay } from "./overlay.ts";
import type { InventorySource, Logger } from "./ports.ts";
import { compareSandboxes } from "./sandbox-view.ts";
import type { SandboxViews, ViewIndexes } from "./view-index.ts";

/** Namespaces come from requests: this many lists are kept per version. */
const MAX_NAMESPACES = 256;

/** What a {@link SandboxList} works with. */
export interface ListParts {
  readonly source: InventorySource;
  readonly logger: Logger;
  readonly overlay: Overlay;
  readonly views: ViewIndexes;
  readonly sandboxes: SandboxViews;
}

/** A change to the sorted list: a sandbox leaves, another comes. */
interface Edit {
  readonly remove: Sandbox | undefined;
  readonly insert: Sandbox | undefined;
}

/**
 * The fleet's sandboxes in order. Sorting happens once per generation, our own writes are merged in once per write, and
 * everything between answers with the same array.
 */
export class SandboxList {
  readonly #parts: ListParts;
  #generation: number | undefined;
  #listed: readonly Sandbox[] = [];
  #version: number | undefined;
  #all: readonly Sandbox[] = [];
  readonly #byNamespace = new Map<string, readonly Sandbox[]>();

  constructor(parts: ListParts) {
    this.#parts = parts;
  }

  /** Every sandbox, or those of one namespace. */
  list(namespace: string): readonly Sandbox[] {
    this.#refresh();
    if (namespace === "") {
      return this.#all;
    }
    const known = this.#byNamespace.get(namespace);
    if (known !== undefined) {
      return known;
    }
    if (this.#byNamespace.size >= MAX_NAMESPACES) {
      this.#byNamespace.clear();
    }
    const start = lowerBound(this.#all, (sandbox) => sandbox.namespace < namespace);
    const end = lowerBound(this.#all, (sandbox) => sandbox.namespace <= namespace);
    const part = start === 0 && end === this.#all.length ? this.#all : this.#all.slice(start, end);
    this.#byNamespace.set(namespace, part);
    return part;
  }

  #refresh(): void {
    const { source, overlay } = this.#parts;
    overlay.prune(source);
    const generation = source.generation;
    if (generation === this.#generation && overlay.version === this.#version) {
      return;
    }
    if (generation !== this.#generation) {
      this.#listed = this.#sortListed();
      this.#generation = generation;
    }
    this.#all = overlay.size === 0 ? this.#listed : merged(this.#listed, this.#edits());
    this.#version = overlay.version;
    this.#byNamespace.clear();
  }

  #sortListed(): readonly Sandbox[] {
    const { source, views, sandboxes, logger } = this.#parts;
    const sorted: (readonly Sandbox[])[] = [];
    for (const node of source.listNodes()) {
      const view = source.nodeInventory(node);
      if (view === undefined) {
        logger.debug(
          { func: "scale.listInventories", node },
          `node inventory unavailable; omitting from list (eventual consistency) node=${node}`,
        );
        continue;
      }
      sorted.push(views.of(view).sorted(sandboxes));
    }
    // Sorted runs stand one after the other, which is what the engine's merge sort is fastest at.
    return sorted.flat().sort(compareSandboxes);
  }

  #edits(): Edit[] {
    const { source, overlay, views, sandboxes } = this.#parts;
    const edits: Edit[] = [];
    for (const node of overlay.nodes()) {
      const view = source.nodeInventory(node);
      if (view === undefined) {
        continue;
      }
      const index = views.of(view);
      for (const id of overlay.idsOn(node)) {
        const listed = index.byId(id);
        const now = overlay.resolve(node, id, listed, view.asOfMs);
        if (now !== listed) {
          edits.push({
            remove: listed && sandboxes.of(node, listed),
            insert: now && sandboxes.of(node, now),
          });
        }
      }
    }
    return edits;
  }
}

/** The sorted list with some sandboxes taken out and others put in, without sorting it again. */
function merged(sorted: readonly Sandbox[], edits: readonly Edit[]): readonly Sandbox[] {
  if (edits.length === 0) {
    return sorted;
  }
  const removed: number[] = [];
  const inserted: Sandbox[] = [];
  for (const { remove, insert } of edits) {
    if (remove !== undefined) {
      const at = lowerBound(sorted, (sandbox) => compareSandboxes(sandbox, remove) < 0);
      if (sorted[at]?.id === remove.id) {
        removed.push(at);
      }
    }
    if (insert !== undefined) {
      inserted.push(insert);
    }
  }
  removed.sort((a, b) => a - b);
  inserted.sort(compareSandboxes);
  const out: Sandbox[] = [];
  let nextRemoved = 0;
  let nextInserted = 0;
  for (let at = 0; at < sorted.length; at += 1) {
    const sandbox = sorted[at] as Sandbox;
    let insert = inserted[nextInserted];
    while (insert !== undefined && compareSandboxes(insert, sandbox) < 0) {
      out.push(insert);
      nextInserted += 1;
      insert = inserted[nextInserted];
    }
    if (at === removed[nextRemoved]) {
      nextRemoved += 1;
    } else {
      out.push(sandbox);
    }
  }
  for (; nextInserted < inserted.length; nextInserted += 1) {
    out.push(inserted[nextInserted] as Sandbox);
  }
  return out;
}

/** Index of the first sandbox for which `before` is false. */
function lowerBound(sorted: readonly Sandbox[], before: (sandbox: Sandbox) => boolean): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const sandbox = sorted[middle];
    if (sandbox !== undefined && before(sandbox)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}
