/**
 * Fleet inventory out of Kubernetes `NodeInventory` objects: the watch of them, the staleness rule and the immutable
 * snapshot that the store reads. The client of the API server is the entry `./client`.
 */
export { KubeInventory } from "./kube-inventory.ts";
export type { KubeInventoryOptions } from "./kube-inventory.ts";
export { NODE_INVENTORIES } from "./node-inventory.ts";
export type {
  InventoryObjectEntry,
  InventoryObjectPool,
  InventoryObjectTemplate,
  NodeInventoryObject,
} from "./node-inventory.ts";
export { NodeInventoryApplier, nodeInventoryObject } from "./node-inventory-applier.ts";
export type { NodeInventoryApplierOptions } from "./node-inventory-applier.ts";
export { ObjectInventory } from "./object-inventory.ts";
export type { ObjectInventoryOptions } from "./object-inventory.ts";
export { DEFAULT_STALE_AFTER_MS, freshNodes } from "./staleness.ts";
export type { Published } from "./staleness.ts";
