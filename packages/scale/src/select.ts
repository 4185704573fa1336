import { throwIfAborted } from "./detached-work.ts";
import type { Sandbox } from "./domain.ts";
import { isScaleError } from "./errors.ts";
import { ourWrites, withWrites } from "./our-writes.ts";
import type { Overlay } from "./overlay.ts";
import type { InventorySource, Logger } from "./ports.ts";
import { noteUnreadable } from "./readable-views.ts";
import type { SandboxFinder } from "./sandbox-finder.ts";
import type { SandboxList } from "./sandbox-list.ts";
import { compareSandboxes, namespaceOf, sandboxOf } from "./sandbox-view.ts";
import type { Selection } from "./selection.ts";
import type { ViewIndexes } from "./view-index.ts";

/** What {@link SandboxSelect} works with. */
export interface SelectParts {
  readonly source: InventorySource;
  readonly logger: Logger;
  readonly overlay: Overlay;
  readonly views: ViewIndexes;
  readonly list: SandboxList;
  readonly finder: SandboxFinder;
}

/** Lists sandboxes by selection. Store §9. */
export class SandboxSelect {
  readonly #parts: SelectParts;

  constructor(parts: SelectParts) {
    this.#parts = parts;
  }

  /** The selected sandboxes in order; at most one for a pinned selection. */
  async select(selection: Selection, signal: AbortSignal | undefined): Promise<readonly Sandbox[]> {
    throwIfAborted(signal);
    return selection.pinned === undefined
      ? this.listed(selection)
      : this.#pinned(selection.namespace, selection.pinned, selection, signal);
  }

  /** What inventory and our own writes show of a selection that is not pinned. */
  listed(selection: Selection): readonly Sandbox[] {
    if (selection.node !== undefined) {
      return this.#onNode(selection.node, selection);
    }
    const sandboxes = this.#parts.list.list(selection.namespace);
    return selection.all ? sandboxes : sandboxes.filter((sandbox) => selection.matches(sandbox));
  }

  /** One node's part needs no look at the rest of the fleet. */
  #onNode(node: string, selection: Selection): readonly Sandbox[] {
    const { source, overlay, views, logger } = this.#parts;
    overlay.prune();
    const view = source.nodeInventory(node);
    if (view === undefined) {
      if (source.listNodes().includes(node)) {
        noteUnreadable(logger, node);
      }
      return [];
    }
    const { namespace } = selection;
    const selected: Sandbox[] = [];
    for (const entry of withWrites(view.entries, ourWrites(overlay, views, view))) {
      if (namespace !== "" && namespaceOf(entry.name) !== namespace) {
        continue;
      }
      const sandbox = sandboxOf(node, entry);
      if (selection.matches(sandbox)) {
        selected.push(sandbox);
      }
    }
    return selected.sort(compareSandboxes);
  }

  async #pinned(
    namespace: string,
    name: string,
    selection: Selection,
    signal: AbortSignal | undefined,
  ): Promise<readonly Sandbox[]> {
    const { finder } = this.#parts;
    let found: Sandbox | undefined;
    try {
      found = await finder.byName(namespace, name, signal);
    } catch (error) {
      if (!isScaleError(error, "not_found")) {
        throw error;
      }
      return [];
    }
    if (!selection.matches(found)) {
      found = await finder.listedByName(namespace, name, (sandbox) => selection.matches(sandbox), signal);
    }
    return found === undefined ? [] : [found];
  }
}
