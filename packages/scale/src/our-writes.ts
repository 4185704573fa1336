import type { InventoryEntry, NodeInventory } from "./domain.ts";
import type { Overlay } from "./overlay.ts";
import type { ViewIndexes } from "./view-index.ts";

/** What our own writes make of one entry of a view: another one, none, or one that the view does not list. */
export interface OurWrite {
  readonly listed: InventoryEntry | undefined;
  readonly now: InventoryEntry | undefined;
}

const NONE: readonly OurWrite[] = [];

/** How our own writes change one view. */
export function ourWrites(overlay: Overlay, views: ViewIndexes, view: NodeInventory): readonly OurWrite[] {
  const { node, asOfMs } = view;
  if (overlay.versionOn(node) === 0) {
    return NONE;
  }
  const index = views.of(view);
  const writes: OurWrite[] = [];
  for (const id of overlay.idsOn(node)) {
    const listed = index.byId(id);
    const now = overlay.resolve(node, id, listed, asOfMs);
    if (now !== listed) {
      writes.push({ listed, now });
    }
  }
  return writes;
}

/** Entries of a view with our own writes laid over them. */
export function withWrites(entries: readonly InventoryEntry[], writes: readonly OurWrite[]): readonly InventoryEntry[] {
  if (writes.length === 0) {
    return entries;
  }
  const replaced = new Set(writes.map((write) => write.listed));
  const now = writes.flatMap((write) => write.now ?? []);
  return entries.filter((entry) => !replaced.has(entry)).concat(now);
}
