/**
 * Fleet inventory without Kubernetes: learns a mesh of sandboxd nodes from its seeds and their gossiped peers, polls
 * every member on a fixed tick and serves immutable snapshots. A read never does I/O.
 */
export { MeshStartError } from "./errors.ts";
export type { MeshStartCode } from "./errors.ts";
export { MeshInventory } from "./mesh-inventory.ts";
export type { MeshMember } from "./mesh-inventory.ts";
export type { MeshInventoryOptions, NodeReader } from "./options.ts";
