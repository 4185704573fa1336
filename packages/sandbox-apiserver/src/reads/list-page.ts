import { compareSandboxes } from "@org/scale";
import type { Sandbox, SandboxPlace, Selection } from "@org/scale";
import type { FleetVersion } from "./catalog.ts";
import { formatContinue } from "./continue-token.ts";
import type { ListMeta } from "./form.ts";
import type { Item } from "./item.ts";
import type { ListQuery } from "./list-query.ts";
import { Turns } from "./text-stream.ts";

/** A page of a list. */
export interface ListPage {
  readonly meta: ListMeta;
  readonly items: readonly Item[];
}

/** How many sandboxes are held against a selection between two looks at the clock. */
const MATCHES_PER_LOOK = 256;

/** One page of what a selection lists of a fleet. Gives others turns while it looks through a big one. */
export async function listPage(
  fleet: FleetVersion,
  selection: Selection,
  { limit, after }: ListQuery,
  signal: AbortSignal,
): Promise<ListPage> {
  const [first, end] = rangeOf(fleet.items, selection.namespace);
  const from = after === undefined ? first : Math.max(first, placeBehind(fleet.items, after));
  const version = after?.version ?? fleet.version;
  if (selection.all) {
    const to = limit === 0 ? end : Math.min(end, from + limit);
    const items = from === 0 && to === fleet.items.length ? fleet.items : fleet.items.slice(from, to);
    return { items, meta: metaOf(version, items, end - to) };
  }
  const matched: Item[] = [];
  const turns = new Turns();
  for (let at = from; at < end; at += 1) {
    const item = fleet.items[at] as Item;
    if (selection.matches(item.sandbox)) {
      if (limit > 0 && matched.length === limit) {
        // How many remain is not counted with a selector.
        return { items: matched, meta: metaOf(version, matched, undefined) };
      }
      matched.push(item);
    }
    if (at % MATCHES_PER_LOOK === 0 && turns.due) {
      await turns.give();
      signal.throwIfAborted();
    }
  }
  return { items: matched, meta: { resourceVersion: version } };
}

/** `remaining` is `undefined` when more follow, nobody knows how many. */
function metaOf(version: string, items: readonly Item[], remaining: number | undefined): ListMeta {
  const last = items.at(-1)?.sandbox;
  if (last === undefined || remaining === 0) {
    return { resourceVersion: version };
  }
  const { namespace, name, id, node } = last;
  return {
    resourceVersion: version,
    continue: formatContinue({ version, namespace, name, id, node }),
    ...(remaining !== undefined && { remainingItemCount: remaining }),
  };
}

/** Where a namespace begins and ends; everything for the empty one. */
export function rangeOf(items: readonly Item[], namespace: string): readonly [number, number] {
  return namespace === ""
    ? [0, items.length]
    : [
        lowerBound(items, (sandbox) => sandbox.namespace < namespace),
        lowerBound(items, (sandbox) => sandbox.namespace <= namespace),
      ];
}

/** Where the sandboxes of one name begin and end. */
export function rangeOfName(items: readonly Item[], namespace: string, name: string): readonly [number, number] {
  const isBefore = (sandbox: Sandbox, orAt: boolean): boolean =>
    sandbox.namespace === namespace
      ? sandbox.name < name || (orAt && sandbox.name === name)
      : sandbox.namespace < namespace;
  return [lowerBound(items, (one) => isBefore(one, false)), lowerBound(items, (one) => isBefore(one, true))];
}

function placeBehind(items: readonly Item[], after: SandboxPlace): number {
  return lowerBound(items, (sandbox) => compareSandboxes(sandbox, after) <= 0);
}

/** The first item for which `before` does not hold; it must hold for all items before that one. */
function lowerBound(items: readonly Item[], before: (sandbox: Sandbox) => boolean): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (before((items[middle] as Item).sandbox)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}
