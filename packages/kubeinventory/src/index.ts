/**
 * Fleet inventory out of Kubernetes `NodeInventory` objects: the object's types, the staleness rule and the immutable
 * snapshot that the store reads. It holds no Kubernetes client: whoever watches the objects hands them in.
 */
export { KubeInventory } from "./kube-inventory.ts";
export type { KubeInventoryOptions } from "./kube-inventory.ts";
export type {
  InventoryObjectEntry,
  InventoryObjectPool,
  InventoryObjectTemplate,
  NodeInventoryObject,
} from "./node-inventory.ts";
export { DEFAULT_STALE_AFTER_MS, freshNodes } from "./staleness.ts";
export type { Published } from "./staleness.ts";
