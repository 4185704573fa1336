import type { Rows } from "./index-rows.ts";

const ID = Buffer.from('{"id":"');
const QUOTE = 0x22;
/** The most rows that are compared at once while nothing changes. */
const MAX_RUN = 64;
/** How far ahead the next row is looked for when some were removed. */
const LOOK_AHEAD = 4;

/** Finds rows of the last reply again. Where rows keep their order whole runs are found at once. */
export class RowLookup {
  readonly #body: Buffer;
  readonly #before: Rows;
  #table: IdTable | undefined;
  #next = 0;
  #run = MAX_RUN;
  #orderly = true;
  /** The first row found. */
  first = 0;
  /** When none was found: the hash of the id there, and the row that named the same id, or -1. */
  hash = 0;
  sameId = -1;

  constructor(body: Buffer, before: Rows) {
    this.#body = body;
    this.#before = before;
  }

  /** How many rows of the last reply, from `first` on, stand at `at` in a row; 0 when the one there is new. */
  find(at: number): number {
    return (this.#orderly ? this.#findRun(at) : 0) || this.#findAnywhere(at);
  }

  #findRun(at: number): number {
    const next = this.#next;
    const left = this.#before.count - next;
    for (let run = this.#run; run > 0; run = run === 1 ? 0 : Math.max(run >> 2, 1)) {
      if (run <= left && this.#rowsStandAt(at, next, next + run - 1)) {
        this.#run = Math.min(run * 2, MAX_RUN);
        return this.#found(next, run);
      }
    }
    this.#run = 4;
    return 0;
  }

  #findAnywhere(at: number): number {
    const [next, { hashes, count }] = [this.#next, this.#before];
    const hash = hashOfId(this.#body, at);
    this.hash = hash;
    this.sameId = -1;
    if (hash === 0) {
      return 0;
    }
    if (this.#orderly) {
      if (next < count && hashes[next] === hash) {
        // The same sandbox with other bytes: the rows behind it are expected to follow.
        this.sameId = next;
        this.#next = next + 1;
        return 0;
      }
      for (let row = next + 1; row <= next + LOOK_AHEAD && row < count; row += 1) {
        if (hashes[row] === hash && this.#rowsStandAt(at, row, row)) {
          return this.#found(row, 1);
        }
      }
    }
    this.#table ??= new IdTable(this.#before);
    const row = this.#table.rowOf(hash, (candidate) => this.#rowsStandAt(at, candidate, candidate));
    if (row >= 0) {
      // Trust the order again as soon as rows follow each other.
      this.#orderly = row === next;
      return this.#found(row, 1);
    }
    this.sameId = this.#table.rowOf(hash, () => true);
    if (this.sameId >= 0) {
      this.#orderly = this.sameId === next;
      this.#next = this.sameId + 1;
    }
    return 0;
  }

  #found(first: number, count: number): number {
    this.first = first;
    this.#next = first + count;
    return count;
  }

  #rowsStandAt(at: number, first: number, last: number): boolean {
    const { body, starts, ends } = this.#before;
    const start = starts[first] ?? 0;
    const end = ends[last] ?? 0;
    const until = at + end - start;
    return until <= this.#body.length && this.#body.compare(body, start, end, at, until) === 0;
  }
}

/** Rows by the hash of their ids, open addressing. Candidates of one hash are compared by their bytes. */
class IdTable {
  readonly #hashes: Int32Array;
  readonly #rows: Int32Array;
  readonly #mask: number;

  constructor({ count, hashes }: Rows) {
    const size = 2 ** Math.ceil(Math.log2(count * 2 + 1));
    this.#mask = size - 1;
    this.#hashes = new Int32Array(size);
    this.#rows = new Int32Array(size);
    for (let row = 0; row < count; row += 1) {
      const hash = hashes[row] ?? 0;
      if (hash !== 0) {
        let slot = hash & this.#mask;
        while (this.#hashes[slot] !== 0) {
          slot = (slot + 1) & this.#mask;
        }
        this.#hashes[slot] = hash;
        this.#rows[slot] = row;
      }
    }
  }

  /** The first row of this hash that is accepted, or -1. */
  rowOf(hash: number, accept: (row: number) => boolean): number {
    for (let slot = hash & this.#mask; this.#hashes[slot] !== 0; slot = (slot + 1) & this.#mask) {
      const row = this.#rows[slot] ?? -1;
      if (this.#hashes[slot] === hash && accept(row)) {
        return row;
      }
    }
    return -1;
  }
}

/** FNV-1a of the id of the row that starts here; 0 when the row does not begin with its id. */
export function hashOfId(body: Buffer, start: number): number {
  if (!standsAt(body, start, ID)) {
    return 0;
  }
  let hash = 0x811c9dc5 | 0;
  for (let at = start + ID.length; at < body.length; at += 1) {
    const byte = body[at] ?? QUOTE;
    if (byte === QUOTE) {
      return hash || 1;
    }
    hash = Math.imul(hash ^ byte, 0x01000193);
  }
  return 0;
}

/** Whether these bytes stand there. */
export function standsAt(body: Buffer, at: number, what: Buffer): boolean {
  for (let offset = 0; offset < what.length; offset += 1) {
    if (body[at + offset] !== what[offset]) {
      return false;
    }
  }
  return true;
}
