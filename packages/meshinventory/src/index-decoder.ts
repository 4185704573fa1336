import type { InventoryEntry } from "@org/scale";
import { entryFromRow } from "@org/scale/sandboxd";
import { readIndex, readSandboxRow } from "@org/sandboxd-client/wire";
import type { Steps } from "./turns.ts";

/** A reply cut into rows: row `i` is `body[starts[i]..ends[i]]` and became `entries[i]`. */
interface Rows {
  readonly body: Buffer;
  readonly count: number;
  readonly starts: Uint32Array;
  readonly ends: Uint32Array;
  readonly entries: readonly InventoryEntry[];
  /** Whether a row is among them that the reply before did not have. */
  readonly fresh: boolean;
}

const HEAD = Buffer.from('{"sandboxes":[');
const ID = Buffer.from('{"id":"');
/** Brackets and white space behind the last row. */
const MAX_TAIL = 16;
/** Rows that are compared at once while nothing changes. */
const RUN = 16;
/** Rows that are found, or bytes that are read anew, in one step. */
const ROWS_PER_STEP = 4096;
const BYTES_PER_STEP = 32 * 1024;
const BRACE_OPEN = 0x7b;
const BRACE_CLOSE = 0x7d;
const BRACKET_OPEN = 0x5b;
const BRACKET_CLOSE = 0x5d;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;

/**
 * Turns one node's index replies into inventory entries, and does work only for rows that changed: a poll reads
 * thousands of rows of which few have. A row whose bytes were seen in the last reply keeps its entry, whatever place it
 * moved to; any other row is parsed by itself. A JSON object ends where its braces balance, so bytes that were a whole
 * object once are a whole object wherever they start. What is not written as nodes write it is parsed as a whole.
 */
export class IndexDecoder {
  #body: Buffer | undefined;
  #entries: readonly InventoryEntry[] = Object.freeze([]);
  #rows: Rows | undefined;

  /**
   * The entries of a reply: the array of the last reply when no row came, went or changed. The body is kept, without
   * a copy, until the next one is decoded. Steps that are not run to their end leave the decoder as it was.
   * @throws Error for a reply that is no index; the one before is then still the last.
   */
  *decode(body: Buffer): Steps<readonly InventoryEntry[]> {
    if (this.#body?.equals(body) === true) {
      this.#body = body;
      this.#rows = this.#rows === undefined ? undefined : { ...this.#rows, body };
      return this.#entries;
    }
    const rows = yield* cutRows(body, this.#rows);
    const entries = rows?.entries ?? parseWhole(body);
    if (rows?.fresh === true || !sameEntries(this.#entries, entries)) {
      this.#entries = Object.freeze(entries);
    }
    this.#body = body;
    this.#rows = rows;
    return this.#entries;
  }
}

/** Whether two lists hold the same entry objects, in any order. */
function sameEntries(a: readonly InventoryEntry[], b: readonly InventoryEntry[]): boolean {
  if (a.length !== b.length) {
    return false;
  }
  let at = 0;
  while (at < a.length && a[at] === b[at]) {
    at += 1;
  }
  if (at === a.length) {
    return true;
  }
  const rest = new Set(a.slice(at));
  return rest.size === a.length - at && b.slice(at).every((entry) => rest.delete(entry));
}

function* cutRows(body: Buffer, before: Rows | undefined): Steps<Rows | undefined> {
  if (!standsAt(body, 0, HEAD)) {
    return undefined;
  }
  const lookup = before === undefined ? undefined : new RowLookup(body, before);
  const starts: number[] = [];
  const ends: number[] = [];
  const entries: InventoryEntry[] = [];
  let fresh = false;
  let at = HEAD.length;
  let [rowsSeen, bytesRead] = [0, 0];
  for (;;) {
    if (rowsSeen >= ROWS_PER_STEP || bytesRead >= BYTES_PER_STEP) {
      [rowsSeen, bytesRead] = [0, 0];
      yield;
    }
    if (body[at] !== BRACE_OPEN) {
      return undefined;
    }
    const found = lookup?.find(at) ?? 0;
    let end = at;
    if (before !== undefined && lookup !== undefined && found > 0) {
      const shift = at - (before.starts[lookup.first] ?? 0);
      for (let row = lookup.first; row < lookup.first + found; row += 1) {
        const entry = before.entries[row];
        if (entry === undefined) {
          return undefined;
        }
        end = (before.ends[row] ?? 0) + shift;
        starts.push((before.starts[row] ?? 0) + shift);
        ends.push(end);
        entries.push(entry);
      }
      rowsSeen += found;
    } else {
      end = endOfObject(body, at);
      const entry = parseRow(body, at, end);
      if (entry === undefined) {
        return undefined;
      }
      starts.push(at);
      ends.push(end);
      entries.push(entry);
      fresh = true;
      bytesRead += end - at;
    }
    if (body[end] === COMMA) {
      at = end + 1;
      continue;
    }
    // Nothing may follow the list: another member could be a second list.
    if (body.length - end > MAX_TAIL || !/^\][ \t\r\n]*\}[ \t\r\n]*$/.test(body.toString("latin1", end))) {
      return undefined;
    }
    const [startsOf, endsOf] = [new Uint32Array(starts), new Uint32Array(ends)];
    return { body, count: entries.length, starts: startsOf, ends: endsOf, entries, fresh };
  }
}

/** Finds rows of the last reply again. Where rows keep their order whole runs are found at once. */
class RowLookup {
  readonly #body: Buffer;
  readonly #before: Rows;
  #table: IdTable | undefined;
  #next = 0;
  #orderly = true;
  /** The first row found. */
  first = 0;

  constructor(body: Buffer, before: Rows) {
    this.#body = body;
    this.#before = before;
  }

  /** How many rows of the last reply, from `first` on, stand at `at` in a row; 0 when the one there is new. */
  find(at: number): number {
    const next = this.#next;
    if (this.#orderly) {
      if (next + RUN <= this.#before.count && this.#rowsStandAt(at, next, next + RUN - 1)) {
        return this.#found(next, RUN);
      }
      if (next < this.#before.count && this.#rowsStandAt(at, next, next)) {
        return this.#found(next, 1);
      }
    }
    const hash = hashOfId(this.#body, at);
    if (hash === 0) {
      return 0;
    }
    if (this.#orderly && hash === hashOfId(this.#before.body, this.#before.starts[next] ?? 0)) {
      // The same sandbox with other bytes: the rows behind it are expected to follow.
      this.#next = next + 1;
      return 0;
    }
    this.#table ??= new IdTable(this.#before);
    const row = this.#table.rowOf(hash, (candidate) => this.#rowsStandAt(at, candidate, candidate));
    if (row >= 0) {
      // Trust the order again as soon as rows follow each other.
      this.#orderly = row === next;
      return this.#found(row, 1);
    }
    const sameId = this.#table.rowOf(hash, () => true);
    if (sameId >= 0) {
      this.#orderly = sameId === next;
      this.#next = sameId + 1;
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
  readonly #hashes: Uint32Array;
  readonly #rows: Int32Array;
  readonly #mask: number;

  constructor({ body, count, starts }: Rows) {
    const size = 2 ** Math.ceil(Math.log2(count * 2 + 1));
    this.#mask = size - 1;
    this.#hashes = new Uint32Array(size);
    this.#rows = new Int32Array(size);
    for (let row = 0; row < count; row += 1) {
      const hash = hashOfId(body, starts[row] ?? 0);
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
function hashOfId(body: Buffer, start: number): number {
  if (!standsAt(body, start, ID)) {
    return 0;
  }
  let hash = 0x811c9dc5;
  for (let at = start + ID.length; at < body.length; at += 1) {
    const byte = body[at] ?? QUOTE;
    if (byte === QUOTE) {
      return hash >>> 0 || 1;
    }
    hash = Math.imul(hash ^ byte, 0x01000193);
  }
  return 0;
}

function standsAt(body: Buffer, at: number, what: Buffer): boolean {
  for (let offset = 0; offset < what.length; offset += 1) {
    if (body[at + offset] !== what[offset]) {
      return false;
    }
  }
  return true;
}

/** @throws Error for a reply that is no index. */
function parseWhole(body: Buffer): InventoryEntry[] {
  return readIndex(JSON.parse(body.toString("utf8"))).map((row) => Object.freeze(entryFromRow(row)));
}

function parseRow(body: Buffer, start: number, end: number): InventoryEntry | undefined {
  try {
    const row = readSandboxRow(JSON.parse(body.toString("utf8", start, end)));
    return row === undefined ? undefined : Object.freeze(entryFromRow(row));
  } catch {
    return undefined;
  }
}

/** Where the object that starts here ends; the body's length when it never does. */
function endOfObject(body: Buffer, start: number): number {
  let depth = 0;
  for (let at = start; at < body.length; at += 1) {
    const byte = body[at];
    if (byte === QUOTE) {
      at = endOfString(body, at);
    } else if (byte === BRACE_OPEN || byte === BRACKET_OPEN) {
      depth += 1;
    } else if (byte === BRACE_CLOSE || byte === BRACKET_CLOSE) {
      depth -= 1;
      if (depth === 0) {
        return at + 1;
      }
    }
  }
  return body.length;
}

/** Where the closing quote of the string that starts here stands. */
function endOfString(body: Buffer, start: number): number {
  let at = start + 1;
  while (at < body.length && body[at] !== QUOTE) {
    at += body[at] === BACKSLASH ? 2 : 1;
  }
  return at;
}
