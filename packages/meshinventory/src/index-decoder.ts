import type { InventoryEntry } from "@org/scale";
import { entryFromRow } from "@org/scale/sandboxd";
import { readIndex, readSandboxRow } from "@org/sandboxd-client/wire";
import { RowCut, type Rows } from "./index-rows.ts";
import { hashOfId, RowLookup, standsAt } from "./row-lookup.ts";
import type { Steps } from "./turns.ts";

const HEAD = Buffer.from('{"sandboxes":[');
/** Brackets and white space behind the last row. */
const MAX_TAIL = 16;
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
 *
 * Nodes promise no order. Entries keep the one in which they were first seen, so that readers of two replies in a row
 * find what changed by walking both side by side.
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
      this.#rows = this.#rows === undefined ? undefined : { ...this.#rows, body };
    } else {
      const rows = yield* cutRows(body, this.#rows);
      const entries = rows?.entries ?? parseWhole(body);
      if (entries !== this.#rows?.entries && (entries.length > 0 || this.#entries.length > 0)) {
        // A copy of its own: copying a frozen array is slow, and the next reply begins with that.
        this.#entries = Object.freeze(entries.slice());
      }
      this.#rows = rows;
    }
    this.#body = body;
    return this.#entries;
  }
}

function* cutRows(body: Buffer, before: Rows | undefined): Steps<Rows | undefined> {
  if (!standsAt(body, 0, HEAD)) {
    return undefined;
  }
  const lookup = before === undefined ? undefined : new RowLookup(body, before);
  const cut = new RowCut(body, before);
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
    let end: number;
    if (lookup !== undefined && found > 0) {
      end = cut.keep(at, lookup.first, found);
      rowsSeen += found;
    } else {
      end = endOfObject(body, at);
      const entry = parseRow(body, at, end);
      if (entry === undefined) {
        return undefined;
      }
      cut.add(at, end, entry, lookup?.hash ?? hashOfId(body, at), lookup?.sameId ?? -1);
      bytesRead += end - at;
    }
    if (body[end] === COMMA) {
      at = end + 1;
      continue;
    }
    // Nothing may follow the list: another member could be a second list.
    return body.length - end <= MAX_TAIL && /^\][ \t\r\n]*\}[ \t\r\n]*$/.test(body.toString("latin1", end))
      ? cut.finish()
      : undefined;
  }
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
