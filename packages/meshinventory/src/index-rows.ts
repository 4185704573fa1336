import type { InventoryEntry } from "@org/scale";

/** A reply cut into rows: row `i` is `body[starts[i]..ends[i]]`, names the id `hashes[i]` and became `entries[slots[i]]`. */
export interface Rows {
  readonly body: Buffer;
  readonly count: number;
  readonly starts: Uint32Array;
  readonly ends: Uint32Array;
  readonly hashes: Int32Array;
  readonly slots: Int32Array;
  readonly entries: readonly InventoryEntry[];
}

/** A slot that is not known yet. */
const NO_SLOT = -1;

/** Collects the rows of one reply and puts their entries into the order of the last one's. */
export class RowCut {
  readonly #body: Buffer;
  readonly #before: Rows | undefined;
  #starts: Uint32Array;
  #ends: Uint32Array;
  #hashes: Int32Array;
  /** Of rows that stayed or were replaced, in the last order. */
  #slots: Int32Array;
  #count = 0;
  readonly #taken: Uint8Array;
  readonly #replaced = new Map<number, InventoryEntry>();
  /** Entries without a slot, by their rows. */
  readonly #added = new Map<number, InventoryEntry>();

  constructor(body: Buffer, before: Rows | undefined) {
    this.#body = body;
    this.#before = before;
    const room = (before?.count ?? 0) + 64;
    this.#starts = new Uint32Array(room);
    this.#ends = new Uint32Array(room);
    this.#hashes = new Int32Array(room);
    this.#slots = new Int32Array(room);
    this.#taken = new Uint8Array(before?.entries.length ?? 0);
  }

  /** Takes `count` rows of the last reply, from `first` on, that stand at `at` now. Gives back where they end. */
  keep(at: number, first: number, count: number): number {
    const before = this.#before;
    if (before === undefined) {
      return at;
    }
    const shift = at - (before.starts[first] ?? 0);
    let end = at;
    for (let row = first; row < first + count; row += 1) {
      const slot = before.slots[row] ?? NO_SLOT;
      const start = (before.starts[row] ?? 0) + shift;
      end = (before.ends[row] ?? 0) + shift;
      const entry = before.entries[slot];
      if (this.#taken[slot] === 0) {
        this.#taken[slot] = 1;
        this.#push(start, end, before.hashes[row] ?? 0, slot);
      } else if (entry !== undefined) {
        // Listed twice.
        this.#added.set(this.#count, entry);
        this.#push(start, end, before.hashes[row] ?? 0, NO_SLOT);
      }
    }
    return end;
  }

  /** Takes a row that the last reply did not have. `sameId` is the last one's row of this id, or -1. */
  add(start: number, end: number, entry: InventoryEntry, hash: number, sameId: number): void {
    const slot = sameId === -1 ? NO_SLOT : (this.#before?.slots[sameId] ?? NO_SLOT);
    if (slot !== NO_SLOT && this.#taken[slot] === 0) {
      this.#taken[slot] = 1;
      this.#replaced.set(slot, entry);
      this.#push(start, end, hash, slot);
    } else {
      this.#added.set(this.#count, entry);
      this.#push(start, end, hash, NO_SLOT);
    }
  }

  finish(): Rows {
    const [count, slots] = [this.#count, this.#slots];
    return {
      body: this.#body,
      count,
      starts: this.#starts,
      ends: this.#ends,
      hashes: this.#hashes,
      slots,
      entries: this.#entries(),
    };
  }

  #entries(): readonly InventoryEntry[] {
    const last = this.#before?.entries ?? [];
    const stayed = this.#count - this.#added.size;
    if (stayed === last.length && this.#replaced.size === 0 && this.#added.size === 0) {
      return last;
    }
    const entries = last.slice();
    for (const [slot, entry] of this.#replaced) {
      entries[slot] = entry;
    }
    if (stayed < last.length) {
      this.#closeGaps(entries);
    }
    for (const [row, entry] of this.#added) {
      this.#slots[row] = entries.length;
      entries.push(entry);
    }
    return entries;
  }

  /** Takes out the entries of rows that are gone, and moves the slots of the others up. */
  #closeGaps(entries: InventoryEntry[]): void {
    const [slots, taken] = [this.#slots, this.#taken];
    const moved = new Uint32Array(entries.length);
    let to = 0;
    for (let from = 0; from < entries.length; from += 1) {
      const entry = entries[from];
      if (taken[from] === 1 && entry !== undefined) {
        entries[to] = entry;
        moved[from] = to;
        to += 1;
      }
    }
    entries.length = to;
    for (let row = 0; row < this.#count; row += 1) {
      slots[row] = moved[slots[row] ?? 0] ?? NO_SLOT;
    }
  }

  #push(start: number, end: number, hash: number, slot: number): void {
    const row = this.#count;
    if (row === this.#starts.length) {
      this.#grow();
    }
    this.#starts[row] = start;
    this.#ends[row] = end;
    this.#hashes[row] = hash;
    this.#slots[row] = slot;
    this.#count += 1;
  }

  #grow(): void {
    const room = this.#starts.length * 2;
    const [starts, ends] = [new Uint32Array(room), new Uint32Array(room)];
    const [hashes, slots] = [new Int32Array(room), new Int32Array(room)];
    starts.set(this.#starts);
    ends.set(this.#ends);
    hashes.set(this.#hashes);
    slots.set(this.#slots);
    this.#starts = starts;
    this.#ends = ends;
    this.#hashes = hashes;
    this.#slots = slots;
  }
}
