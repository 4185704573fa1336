import type { PageOptions, Sandbox } from "@org/scale";
import type { ListQuery } from "./list-query.ts";

/** What a page holds: `templates` are the names of the template filter on nodes, empty for none. */
export function pageOptions(query: ListQuery, templates: readonly string[]): PageOptions {
  const { states, metadata, startedAfter, newestFirst, after, limit } = query;
  const matches = (sandbox: Sandbox): boolean =>
    (sandbox.paused ? states.paused : states.running) &&
    (templates.length === 0 || (sandbox.template !== undefined && templates.includes(sandbox.template))) &&
    (startedAfter === undefined || startedSecond(sandbox) >= startedAfter) &&
    metadata.every(([key, value]) => sandbox.metadata !== undefined && sandbox.metadata[key] === value);
  return { newestFirst, after, limit, matches };
}

/** A sandbox without a start is the oldest. */
function startedSecond(sandbox: Sandbox): number {
  return Math.floor((sandbox.claimedAt?.getTime() || 0) / 1000);
}
