import { E2bError } from "./errors.ts";
import { anyText, commaList, oneOf, parsed, queryOf, wholeNumber } from "./query.ts";
import type { Query, QueryParameter } from "./query.ts";

/** A place in a listing: after the sandbox with this start and id. */
export interface Position {
  readonly startedMs: number;
  readonly id: string;
}

/** What a listing asks for. */
export interface ListQuery {
  readonly states: { readonly running: boolean; readonly paused: boolean };
  /** Pairs that must all be there. */
  readonly metadata: readonly (readonly [string, string])[];
  /** An alias, a pool image or a built template's name. */
  readonly template: string | undefined;
  /** Whole seconds since the epoch; inclusive. */
  readonly startedAfter: number | undefined;
  readonly newestFirst: boolean;
  /** `undefined` lists everything. */
  readonly limit: number | undefined;
  readonly after: Position | undefined;
}

const MAX_LIMIT = 100;
const TIME = /^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})$/;
const CURSOR = /^([ad]) (-?\d{1,16}) (\S+)$/;

function bad(name: string, want: string): E2bError {
  return new E2bError("bad_request", `${name}: ${want}`);
}

/** Absent means both. */
function statesOf(named: readonly string[]): ListQuery["states"] {
  if (named.length === 0) {
    return { running: true, paused: true };
  }
  if (!named.every((state) => state === "running" || state === "paused")) {
    throw bad("state", "want running, paused or both");
  }
  return { running: named.includes("running"), paused: named.includes("paused") };
}

/**
 * Clients percent-encode keys and values, join them as a form and encode that again, so after the query's own decoding
 * two layers are left. Throws `bad_request` for anything that no client makes.
 */
export function parseMetadataFilter(value: string): readonly (readonly [string, string])[] {
  if (value === "") {
    return [];
  }
  const pairs = new Map<string, string>();
  for (const pair of value.split("&")) {
    const cut = pair.indexOf("=");
    if (cut === -1) {
      throw bad("metadata", "want key=value pairs");
    }
    let key: string;
    let text: string;
    try {
      key = decodeURIComponent(decodeURIComponent(pair.slice(0, cut).replaceAll("+", " ")));
      text = decodeURIComponent(decodeURIComponent(pair.slice(cut + 1).replaceAll("+", " ")));
    } catch {
      throw bad("metadata", "a key or a value is not percent-encoded");
    }
    if (key === "" || pairs.has(key)) {
      throw bad("metadata", "keys must be unique and not empty");
    }
    pairs.set(key, text);
  }
  return [...pairs];
}

/** Whole seconds of an RFC 3339 time. `Date` alone would accept much more than that. */
export function parseTime(value: string): number | undefined {
  const ms = TIME.test(value) ? Date.parse(value) : Number.NaN;
  if (Number.isNaN(ms)) {
    return undefined;
  }
  // `Date` rolls 30 February over into March instead of refusing it.
  const day = new Date(`${value.slice(0, 10)}T00:00:00Z`);
  return !Number.isNaN(day.getTime()) && day.toISOString().startsWith(value.slice(0, 10))
    ? Math.floor(ms / 1000)
    : undefined;
}

/** Writes an opaque page token. It names a position, so that changes between two pages neither repeat nor skip. */
export function encodeCursor(position: Position, newestFirst: boolean): string {
  return Buffer.from(`${newestFirst ? "d" : "a"} ${position.startedMs} ${position.id}`).toString("base64url");
}

/** Reads a page token of this order; `undefined` for any other text. */
export function decodeCursor(token: string, newestFirst: boolean): Position | undefined {
  const bytes = Buffer.from(token, "base64url");
  const [, order, startedMs, id] = CURSOR.exec(bytes.toString("utf8")) ?? [];
  if (order !== (newestFirst ? "d" : "a") || startedMs === undefined || id === undefined) {
    return undefined;
  }
  const position = { startedMs: Number(startedMs), id };
  return encodeCursor(position, newestFirst) === token ? position : undefined;
}

/** How many items a page has at most. */
export const pageLimit: QueryParameter<number> = wholeNumber({
  about: "How many items a page has at most.",
  min: 1,
  max: MAX_LIMIT,
  fallback: MAX_LIMIT,
});

/** The token of a page. What it means depends on the order of its listing, so it is not looked at here. */
export const nextToken: QueryParameter<string | undefined> = anyText(
  "`x-next-token` of the page before. Absent or empty is the first page.",
);

const filters = {
  state: commaList(
    "Only those in one of these states; a repeated parameter adds to them.",
    { items: { type: "string", enum: ["running", "paused"] }, minItems: 1 },
    statesOf,
  ),
  metadata: parsed(
    "Only those with all of these pairs, as a form whose keys and values are percent-encoded before they are put into it.",
    { type: "string" },
    (value = "") => parseMetadataFilter(value),
  ),
  template: anyText("Only those of this template: an alias, a pool image or the name of a built template."),
  startedAfter: parsed(
    "Only those that began at this time or later, at second precision.",
    { type: "string", format: "date-time" },
    (value, name) => {
      const seconds = value === undefined ? undefined : parseTime(value);
      if (value !== undefined && seconds === undefined) {
        throw bad(name, "want an RFC 3339 time");
      }
      return seconds;
    },
  ),
};

/** The query of the listing that has everything at once. */
export const listQuery: Query<ListQuery> = queryOf(filters, ({ state, ...rest }) => ({
  ...rest,
  states: state,
  newestFirst: true,
  limit: undefined,
  after: undefined,
}));

/** The query of the listing that comes page by page. */
export const pageQuery: Query<ListQuery> = queryOf(
  {
    ...filters,
    limit: pageLimit,
    order: oneOf(["desc", "asc"], { about: "By start: newest or oldest first.", fallback: "desc" }),
    nextToken,
  },
  ({ state, order, nextToken: token, ...rest }) => {
    const newestFirst = order === "desc";
    const after = token === undefined ? undefined : decodeCursor(token, newestFirst);
    if (token !== undefined && after === undefined) {
      throw bad("nextToken", "not a token of this listing and order");
    }
    return { ...rest, states: state, newestFirst, after };
  },
);
