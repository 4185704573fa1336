import type { InventoryEntry } from "./domain.ts";
import type { OurWrite } from "./our-writes.ts";

/** What one node shows: its view's entries and our own writes laid over them. */
export interface NodeState {
  readonly entries: readonly InventoryEntry[];
  readonly writes: readonly OurWrite[];
  /** The overlay's version of these writes. */
  readonly writesVersion: number;
}

/** What the whole fleet shows at one time. Nodes that did not change keep their state. */
export interface FleetState {
  readonly nodes: ReadonlyMap<string, NodeState>;
}

/** The fleet before anything was seen of it. */
export const EMPTY_FLEET: FleetState = { nodes: new Map() };

/** How far ahead rows are looked for that came or went: most views keep most of their order. */
const LOOK_AHEAD = 16;

/** Calls back for each entry that only one of two states of the fleet shows. Looks only at nodes that differ. */
export function eachChange(
  from: FleetState,
  to: FleetState,
  gone: (node: string, entry: InventoryEntry) => void,
  come: (node: string, entry: InventoryEntry) => void,
): void {
  for (const [node, before] of from.nodes) {
    const after = to.nodes.get(node);
    if (after !== before) {
      compareNode(node, before, after, gone, come);
    }
  }
  for (const [node, after] of to.nodes) {
    if (!from.nodes.has(node)) {
      compareNode(node, undefined, after, gone, come);
    }
  }
}

function compareNode(
  node: string,
  before: NodeState | undefined,
  after: NodeState | undefined,
  gone: (node: string, entry: InventoryEntry) => void,
  come: (node: string, entry: InventoryEntry) => void,
): void {
  const { left, right } = compareEntries(before?.entries ?? [], after?.entries ?? []);
  if (before?.writes.length || after?.writes.length || (left.length > 0 && right.length > 0)) {
    // What is on both sides only moved, or was the same all along under our writes.
    const balance = new Map<InventoryEntry, number>();
    const weigh = (entry: InventoryEntry | undefined, by: number): void => {
      if (entry !== undefined) {
        balance.set(entry, (balance.get(entry) ?? 0) + by);
      }
    };
    left.forEach((entry) => weigh(entry, -1));
    right.forEach((entry) => weigh(entry, 1));
    for (const { listed, now } of before?.writes ?? []) {
      weigh(listed, 1);
      weigh(now, -1);
    }
    for (const { listed, now } of after?.writes ?? []) {
      weigh(listed, -1);
      weigh(now, 1);
    }
    for (const [entry, weight] of balance) {
      if (weight < 0) {
        gone(node, entry);
      } else if (weight > 0) {
        come(node, entry);
      }
    }
    return;
  }
  left.forEach((entry) => gone(node, entry));
  right.forEach((entry) => come(node, entry));
}

/** Entries that two lists do not share. */
export interface EntryDifference {
  readonly left: readonly InventoryEntry[];
  readonly right: readonly InventoryEntry[];
}

/**
 * Entries on one side only, in one pass as long as both keep the same order. An entry that moved too far may stand on
 * both sides.
 */
export function compareEntries(a: readonly InventoryEntry[], b: readonly InventoryEntry[]): EntryDifference {
  if (a === b || a.length === 0 || b.length === 0) {
    return a === b ? { left: [], right: [] } : { left: a, right: b };
  }
  const left: InventoryEntry[] = [];
  const right: InventoryEntry[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    const atA = a[i] as InventoryEntry;
    const atB = b[j] as InventoryEntry;
    if (atA === atB) {
      i += 1;
      j += 1;
      continue;
    }
    const ahead = distance(a, i, atB);
    const behind = ahead === 0 ? distance(b, j, atA) : 0;
    if (ahead > 0) {
      for (const end = i + ahead; i < end; i += 1) {
        left.push(a[i] as InventoryEntry);
      }
    } else if (behind > 0) {
      for (const end = j + behind; j < end; j += 1) {
        right.push(b[j] as InventoryEntry);
      }
    } else {
      left.push(atA);
      right.push(atB);
      i += 1;
      j += 1;
    }
  }
  return { left: left.concat(a.slice(i)), right: right.concat(b.slice(j)) };
}

/** How far behind `from` an entry stands, 0 when it is not near. */
function distance(entries: readonly InventoryEntry[], from: number, wanted: InventoryEntry): number {
  const end = Math.min(from + LOOK_AHEAD, entries.length - 1);
  for (let at = from + 1; at <= end; at += 1) {
    if (entries[at] === wanted) {
      return at - from;
    }
  }
  return 0;
}
