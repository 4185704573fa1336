import type { Sandbox } from "@org/scale";
import { encodeCursor } from "./list-query.ts";
import type { ListQuery } from "./list-query.ts";

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

function compare(aStart: number, aId: string, bStart: number, bId: string): number {
  return aStart !== bStart ? aStart - bStart : aId < bId ? -1 : aId > bId ? 1 : 0;
}

/**
 * Filters, orders and cuts a listing in one pass that keeps only a page, so that the cost does not grow with a sort of
 * the fleet. `templates` are the
 * names of the template filter on nodes, empty for none. Sandboxes without an id cannot be addressed and are left out.
 */
export function selectPage(sandboxes: readonly Sandbox[], query: ListQuery, templates: readonly string[]): Page {
  const { states, metadata, startedAfter, after, limit } = query;
  const sign = query.newestFirst ? -1 : 1;
  const order = (a: Sandbox, b: Sandbox): number => sign * compare(startOf(a), a.id, startOf(b), b.id);
  const wanted = (sandbox: Sandbox): boolean =>
    sandbox.id !== "" &&
    (sandbox.paused ? states.paused : states.running) &&
    (templates.length === 0 || (sandbox.template !== undefined && templates.includes(sandbox.template))) &&
    (startedAfter === undefined || Math.floor(startOf(sandbox) / 1000) >= startedAfter) &&
    (after === undefined || sign * compare(startOf(sandbox), sandbox.id, after.startedMs, after.id) > 0) &&
    metadata.every(([key, value]) => sandbox.metadata !== undefined && sandbox.metadata[key] === value);
  if (limit === undefined) {
    return { items: sandboxes.filter(wanted).sort(order), nextToken: undefined };
  }
  const page: Sandbox[] = [];
  for (const sandbox of sandboxes) {
    const last = page.length > limit ? page[page.length - 1] : undefined;
    // The order is checked first: on a large fleet it turns nearly everything away.
    if ((last !== undefined && order(sandbox, last) >= 0) || !wanted(sandbox)) {
      continue;
    }
    if (last !== undefined) {
      page.pop();
    }
    let low = 0;
    let high = page.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const at = page[middle];
      if (at !== undefined && order(at, sandbox) <= 0) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    page.splice(low, 0, sandbox);
  }
  const items = page.slice(0, limit);
  const last = items.at(-1);
  const more = page.length > limit && last !== undefined;
  const nextToken = more ? encodeCursor({ startedMs: startOf(last), id: last.id }, query.newestFirst) : undefined;
  return { items, nextToken };
}
