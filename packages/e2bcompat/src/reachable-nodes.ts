import type { InventorySource } from "@org/scale";

/** The nodes that can be asked now: readable ones with an address. */
export function reachableNodes(inventory: InventorySource): readonly string[] {
  return inventory.nodeCapacities().flatMap(({ node, address }) => (address === "" ? [] : [node]));
}
