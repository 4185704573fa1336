import type { NodeInventory, NodePools } from "@org/scale";
import type { Member } from "./membership.ts";

/** One immutable view of the mesh. */
export interface MeshSnapshot {
  readonly generation: number;
  /** Node keys in code-unit order. */
  readonly nodes: readonly string[];
  readonly byKey: ReadonlyMap<string, NodeInventory>;
  /** Pools of every node, in the order of `nodes`. */
  readonly capacities: readonly NodePools[];
  readonly capacityByKey: ReadonlyMap<string, NodePools>;
}

/** The view before anything was heard. */
export const emptySnapshot: MeshSnapshot = {
  generation: 0,
  nodes: [],
  byKey: new Map(),
  capacities: [],
  capacityByKey: new Map(),
};

/**
 * The view that the members make. Of several members of one key the one with the fewest failed ticks speaks, the first
 * of them on a tie; more than `maxStale` failed ticks silence a member. Mesh specification §5.
 */
export function buildSnapshot(members: Iterable<Member>, maxStale: number, generation: number): MeshSnapshot {
  const best = new Map<string, { readonly fails: number; readonly inventory: NodeInventory }>();
  for (const { fails, inventory } of members) {
    if (inventory === undefined || fails > maxStale) {
      continue;
    }
    const other = best.get(inventory.node);
    if (other === undefined || fails < other.fails) {
      best.set(inventory.node, { fails, inventory });
    }
  }
  const nodes = [...best.keys()].sort();
  const byKey = new Map<string, NodeInventory>();
  const capacityByKey = new Map<string, NodePools>();
  for (const node of nodes) {
    const inventory = best.get(node)?.inventory;
    if (inventory !== undefined) {
      const { address, pools, templates } = inventory;
      byKey.set(node, inventory);
      capacityByKey.set(node, Object.freeze({ node, address, pools, templates }));
    }
  }
  return Object.freeze({
    generation,
    nodes: Object.freeze(nodes),
    byKey,
    capacities: Object.freeze([...capacityByKey.values()]),
    capacityByKey,
  });
}

/**
 * `next` with what did not change taken from `previous`, under the same generation when nothing did. Times of reads
 * always are those of `next`: an unchanged view is as fresh as its last confirmation.
 */
export function succeed(previous: MeshSnapshot, next: MeshSnapshot): MeshSnapshot {
  const sameNodes =
    previous.nodes.length === next.nodes.length && previous.nodes.every((node, at) => node === next.nodes[at]);
  if (!sameNodes) {
    return { ...next, generation: previous.generation + 1 };
  }
  let samePools = true;
  let sameEntries = true;
  for (const [node, inventory] of next.byKey) {
    const before = previous.byKey.get(node);
    samePools &&= before?.pools === inventory.pools && before.templates === inventory.templates;
    sameEntries &&= before?.entries === inventory.entries;
  }
  return {
    generation: samePools && sameEntries ? previous.generation : previous.generation + 1,
    nodes: previous.nodes,
    byKey: next.byKey,
    capacities: samePools ? previous.capacities : next.capacities,
    capacityByKey: samePools ? previous.capacityByKey : next.capacityByKey,
  };
}
