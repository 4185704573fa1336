import type { InventoryEntry } from "@org/scale";
import { record } from "./errors.ts";

/**
 * The entries of one node, read again and again. One that says what it said before keeps its object, a list of none but
 * such keeps its array, and both keep their order, whatever order a publisher lists them in: readers remember by
 * identity, and have nothing to do for a node that merely published again.
 */
export class EntryList {
  readonly #readEntry: (value: unknown) => InventoryEntry | undefined;
  /** What was read last, and what each became. */
  #raw: readonly unknown[] = [];
  #became: readonly (InventoryEntry | undefined)[] = [];
  #entries: readonly InventoryEntry[] = Object.freeze([]);

  constructor(readEntry: (value: unknown) => InventoryEntry | undefined) {
    this.#readEntry = readEntry;
  }

  /** The entries of a published list. What is no list is an empty one. */
  read(value: unknown): readonly InventoryEntry[] {
    const published: readonly unknown[] = Array.isArray(value) ? value : [];
    const [lastRaw, lastBecame] = [this.#raw, this.#became];
    let places: ReadonlyMap<string, number> | undefined;
    const raw: unknown[] = [];
    const became = published.map((item, at) => {
      let place: number | undefined = at;
      if (!sameFields(lastRaw[at], item)) {
        places ??= new Map(lastRaw.map((one, index) => [keyOf(one), index]));
        place = places.get(keyOf(item));
        place = place !== undefined && sameFields(lastRaw[place], item) ? place : undefined;
      }
      // The old one of two that are the same, so that the new one can go.
      raw.push(place === undefined ? item : lastRaw[place]);
      return place === undefined ? this.#readEntry(item) : lastBecame[place];
    });
    this.#raw = raw;
    this.#became = became;
    this.#entries = inOrderOf(
      this.#entries,
      became.filter((entry) => entry !== undefined),
    );
    return this.#entries;
  }
}

/** `next` in the order of `last`, new ones behind; `last` itself when it has the same entries. */
function inOrderOf(last: readonly InventoryEntry[], next: readonly InventoryEntry[]): readonly InventoryEntry[] {
  if (last.length === next.length && next.every((entry, at) => last[at] === entry)) {
    return last;
  }
  const left = new Map(next.map((entry) => [`${entry.id}\n${entry.name}`, entry]));
  if (left.size < next.length) {
    return Object.freeze([...next]);
  }
  const entries: InventoryEntry[] = [];
  let kept = 0;
  for (const old of last) {
    const key = `${old.id}\n${old.name}`;
    const entry = left.get(key);
    if (entry !== undefined) {
      entries.push(entry);
      kept += entry === old ? 1 : 0;
      left.delete(key);
    }
  }
  if (kept === last.length && left.size === 0) {
    return last;
  }
  entries.push(...left.values());
  return Object.freeze(entries);
}

function keyOf(value: unknown): string {
  const { id, name } = record(value);
  return `${typeof id === "string" ? id : ""}\n${typeof name === "string" ? name : ""}`;
}

/** Whether two objects out of JSON have the same members. Those with members of their own count as different. */
function sameFields(a: unknown, b: unknown): boolean {
  if (a === undefined || b === undefined) {
    return false;
  }
  const [one, other] = [record(a), record(b)];
  let count = 0;
  for (const key in one) {
    if (one[key] !== other[key]) {
      return false;
    }
    count += 1;
  }
  return count > 0 && Object.keys(other).length === count;
}
