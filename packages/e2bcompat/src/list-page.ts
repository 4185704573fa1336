import type { Sandbox } from "@org/scale";
import { encodeCursor } from "./list-query.ts";
import type { ListQuery, Position } from "./list-query.ts";

/** One page of a listing. */
export interface Page {
  readonly items: readonly Sandbox[];
  /** Set only when more items follow: clients ask for another page whenever they see a token. */
  readonly nextToken: string | undefined;
}

/** A sandbox without a start sorts as the oldest, always at the same place, so that pages meet it exactly once. */
function startOf(sandbox: Sandbox): number {
  const ms = sandbox.claimedAt?.getTime() ?? 0;
  return Number.isNaN(ms) ? 0 : ms;
}

interface Placed extends Position {
  readonly sandbox: Sandbox;
}

/** Oldest first: where the first of two places comes. Takes no object for it, since it runs for the whole fleet. */
function compare(startedMs: number, id: string, other: Position): number {
  return startedMs !== other.startedMs ? startedMs - other.startedMs : id < other.id ? -1 : id > other.id ? 1 : 0;
}

/** Puts one more into a page that is ordered by `sign`. */
function insert(page: Placed[], placed: Placed, sign: number): void {
  let low = 0;
  let high = page.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const at = page[middle];
    if (at !== undefined && sign * compare(placed.startedMs, placed.id, at) >= 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  page.splice(low, 0, placed);
}

/**
 * Filters, orders and cuts a listing in one pass that keeps only a page, so that the cost does not grow with a sort of
 * the fleet. `templates` are the names of the template filter on nodes, empty for none. Sandboxes without an id cannot
 * be addressed and are left out.
 */
export function selectPage(sandboxes: readonly Sandbox[], query: ListQuery, templates: readonly string[]): Page {
  const { states, metadata, startedAfter, after, limit } = query;
  const sign = query.newestFirst ? -1 : 1;
  const wanted = (sandbox: Sandbox, startedMs: number): boolean =>
    (sandbox.paused ? states.paused : states.running) &&
    (templates.length === 0 || (sandbox.template !== undefined && templates.includes(sandbox.template))) &&
    (startedAfter === undefined || Math.floor(startedMs / 1000) >= startedAfter) &&
    metadata.every(([key, value]) => sandbox.metadata !== undefined && sandbox.metadata[key] === value);
  const page: Placed[] = [];
  let worst: Placed | undefined;
  for (const sandbox of sandboxes) {
    const { id } = sandbox;
    const startedMs = startOf(sandbox);
    // The order is checked first: on a large fleet it turns nearly everything away.
    if (
      (worst !== undefined && sign * compare(startedMs, id, worst) >= 0) ||
      (after !== undefined && sign * compare(startedMs, id, after) <= 0) ||
      id === "" ||
      !wanted(sandbox, startedMs)
    ) {
      continue;
    }
    const placed = { sandbox, startedMs, id };
    if (limit === undefined) {
      page.push(placed);
      continue;
    }
    if (worst !== undefined) {
      page.pop();
    }
    insert(page, placed, sign);
    // One more than the page holds, to know whether another page follows.
    worst = page.length > limit ? page[limit] : undefined;
  }
  if (limit === undefined) {
    page.sort((a, b) => sign * compare(a.startedMs, a.id, b));
    return { items: page.map(({ sandbox }) => sandbox), nextToken: undefined };
  }
  const last = page[limit - 1];
  const nextToken = page.length > limit && last !== undefined ? encodeCursor(last, query.newestFirst) : undefined;
  return { items: page.slice(0, limit).map(({ sandbox }) => sandbox), nextToken };
}
