import type { NodeInventory } from "@org/scale";

/** Age, against the fleet's newest inventory, at which a node's inventory counts for nothing. Milliseconds. */
export const DEFAULT_STALE_AFTER_MS = 90_000;

/** What staleness is judged by. */
export type Published = Pick<NodeInventory, "publishedAt">;

/**
 * The nodes whose published inventory still counts, in the order given.
 *
 * Age is measured against the fleet's newest stamp and not against the clock, so that an outage of the control plane,
 * during which nobody can publish, evicts nobody. The clock only caps that stamp: a node whose clock runs ahead must not
 * evict the others. A node without a stamp is older than every node with one.
 *
 * @param now wall clock in milliseconds
 * @param staleAfterMs 0 stands for the default
 */
export function freshNodes<T extends Published>(
  fleet: readonly T[],
  now: number,
  staleAfterMs: number = DEFAULT_STALE_AFTER_MS,
): T[] {
  const window = staleAfterMs === 0 ? DEFAULT_STALE_AFTER_MS : staleAfterMs;
  let newest = 0;
  for (const { publishedAt } of fleet) newest = Math.max(newest, publishedAt?.getTime() ?? 0);
  const reference = Math.min(newest, now);
  return fleet.filter(({ publishedAt }) => reference - (publishedAt?.getTime() ?? 0) <= window);
}
