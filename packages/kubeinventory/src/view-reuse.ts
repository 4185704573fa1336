import type { InventoryEntry, NodeInventory } from "@org/scale";

/**
 * `next` with everything that says what `before` said taken from there, so that readers who remember lists and entries
 * by identity have nothing to do for a node that merely published again. Entries keep their order, whatever order a
 * publisher lists them in.
 */
export function reuseView(before: NodeInventory, next: NodeInventory): NodeInventory {
  return Object.freeze({
    ...next,
    entries: reuseEntries(before.entries, next.entries),
    pools: unlessSame(before.pools, next.pools),
    templates: unlessSame(before.templates, next.templates),
  });
}

/** Whether two views show the same, apart from when they were read. */
export function sameContent(a: NodeInventory, b: NodeInventory): boolean {
  return a.entries === b.entries && a.pools === b.pools && a.templates === b.templates && a.address === b.address;
}

function unlessSame<T>(before: readonly T[], next: readonly T[]): readonly T[] {
  return JSON.stringify(before) === JSON.stringify(next) ? before : next;
}

function reuseEntries(before: readonly InventoryEntry[], next: readonly InventoryEntry[]): readonly InventoryEntry[] {
  if (before.length === next.length && next.every((entry, at) => sameEntry(before[at], entry))) {
    return before;
  }
  const left = new Map(next.map((entry) => [keyOf(entry), entry]));
  if (left.size < next.length) {
    return next;
  }
  const entries: InventoryEntry[] = [];
  let kept = 0;
  for (const old of before) {
    const key = keyOf(old);
    const entry = left.get(key);
    if (entry !== undefined) {
      const same = sameEntry(old, entry);
      entries.push(same ? old : entry);
      kept += same ? 1 : 0;
      left.delete(key);
    }
  }
  if (kept === before.length && left.size === 0) {
    return before;
  }
  entries.push(...left.values());
  return Object.freeze(entries);
}

function keyOf({ id, name }: InventoryEntry): string {
  return `${id}\n${name}`;
}

function sameEntry(a: InventoryEntry | undefined, b: InventoryEntry): boolean {
  return (
    a !== undefined &&
    a.name === b.name &&
    a.id === b.id &&
    a.phase === b.phase &&
    a.template === b.template &&
    a.claimRef === b.claimRef &&
    a.addr === b.addr &&
    a.deadline?.getTime() === b.deadline?.getTime() &&
    a.claimedAt?.getTime() === b.claimedAt?.getTime() &&
    a.cpuCount === b.cpuCount &&
    a.memoryBytes === b.memoryBytes &&
    sameMap(a.metadata, b.metadata)
  );
}

type Metadata = InventoryEntry["metadata"];

function sameMap(a: Metadata, b: Metadata): boolean {
  if (a === undefined || b === undefined) {
    return a === b;
  }
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && a[key] === b[key]);
}
