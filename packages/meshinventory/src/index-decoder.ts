import type { InventoryEntry } from "@org/scale";
import { entryFromRow } from "@org/scale/sandboxd";
import { readIndex, readSandboxRow } from "@org/sandboxd-client/wire";

/** The last reply, cut into rows: row `i` is `body[starts[i]..ends[i]]` and became `entries[i]`. */
interface Rows {
  readonly body: Buffer;
  readonly starts: Uint32Array;
  readonly ends: Uint32Array;
  readonly entries: readonly InventoryEntry[];
}

const HEAD = Buffer.from('{"sandboxes":[');
const ID = Buffer.from('{"id":"');
/** Brackets and white space behind the last row. */
const MAX_TAIL = 16;
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
  #last:
    | { readonly body: Buffer; readonly entries: readonly InventoryEntry[]; readonly rows: Rows | undefined }
    | undefined;

  /**
   * The entries of a reply: the array of the last reply when no row came, went or changed.
   * @throws Error for a reply that is no index.
   */
  decode(body: Buffer): readonly InventoryEntry[] {
    const last = this.#last;
    if (last !== undefined && last.body.equals(body)) {
      return last.entries;
    }
    const rows = cutRows(body, last?.rows);
    if (rows === undefined) {
      const entries = Object.freeze(readIndex(JSON.parse(body.toString("utf8"))).map(entryFromRow));
      const same = entries.length === 0 && last?.entries.length === 0 ? last.entries : entries;
      this.#last = { body, entries: same, rows: undefined };
      return same;
    }
    const entries = last !== undefined && sameEntries(last.entries, rows.entries) ? last.entries : rows.entries;
    this.#last = { body, entries, rows };
    return entries;
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

function cutRows(body: Buffer, before: Rows | undefined): Rows | undefined {
  if (body.compare(HEAD, 0, HEAD.length, 0, Math.min(HEAD.length, body.length)) !== 0) {
    return undefined;
  }
  const starts: number[] = [];
  const ends: number[] = [];
  const entries: InventoryEntry[] = [];
  const lookup = new RowLookup(body, before);
  let at = HEAD.length;
  for (;;) {
    if (body[at] !== BRACE_OPEN) {
      return undefined;
    }
    const seen = lookup.find(at);
    const end = seen === undefined ? endOfObject(body, at) : at + lookup.lengthOf(seen);
    const entry = seen === undefined ? parseRow(body, at, end) : before?.entries[seen];
    if (entry === undefined) {
      return undefined;
    }
    starts.push(at);
    ends.push(end);
    entries.push(entry);
    if (body[end] === COMMA) {
      at = end + 1;
      continue;
    }
    // Nothing may follow the list: another member could be a second list.
    return body.length - end <= MAX_TAIL && /^\][ \t\r\n]*\}[ \t\r\n]*$/.test(body.toString("latin1", end))
      ? { body, starts: Uint32Array.from(starts), ends: Uint32Array.from(ends), entries: Object.freeze(entries) }
      : undefined;
  }
}

/** Finds rows of the last reply again. Rows mostly keep their order, so the next one is tried first. */
class RowLookup {
  readonly #body: Buffer;
  readonly #before: Rows | undefined;
  #next = 0;
  #byId: Map<string, number> | undefined;

  constructor(body: Buffer, before: Rows | undefined) {
    this.#body = body;
    this.#before = before;
  }

  /** The row of the last reply whose bytes stand at `at`. */
  find(at: number): number | undefined {
    const before = this.#before;
    if (before === undefined) {
      return undefined;
    }
    if (this.#standsAt(at, this.#next)) {
      this.#next += 1;
      return this.#next - 1;
    }
    const id = this.#idAt(at);
    if (id === undefined) {
      return undefined;
    }
    if (before.entries[this.#next]?.id === id) {
      // The same sandbox with other bytes: the rows behind it are expected to follow.
      this.#next += 1;
      return undefined;
    }
    this.#byId ??= new Map(before.entries.map((entry, index) => [entry.id, index]));
    const index = this.#byId.get(id);
    if (index === undefined) {
      return undefined;
    }
    this.#next = index + 1;
    return this.#standsAt(at, index) ? index : undefined;
  }

  lengthOf(index: number): number {
    return (this.#before?.ends[index] ?? 0) - (this.#before?.starts[index] ?? 0);
  }

  #standsAt(at: number, index: number): boolean {
    const start = this.#before?.starts[index];
    const end = this.#before?.ends[index];
    if (this.#before === undefined || start === undefined || end === undefined) {
      return false;
    }
    const until = at + end - start;
    return until <= this.#body.length && this.#body.compare(this.#before.body, start, end, at, until) === 0;
  }

  #idAt(at: number): string | undefined {
    const from = at + ID.length;
    if (from > this.#body.length || this.#body.compare(ID, 0, ID.length, at, from) !== 0) {
      return undefined;
    }
    const to = this.#body.indexOf(QUOTE, from);
    return to === -1 ? undefined : this.#body.toString("latin1", from, to);
  }
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
