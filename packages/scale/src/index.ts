/**
 * The core of the product: routes claims over a fleet of nodes from an inventory that is seconds old, finds the node of
 * a sandbox, and calls it. No HTTP server, no record per sandbox. Node calls go through the `NodeClients` port; the
 * entry `@org/scale/sandboxd` implements it over `@org/sandboxd-client`.
 */
export type {
  Assignment,
  ClaimOptions,
  InventoryEntry,
  Net,
  NodeInventory,
  NodePools,
  Phase,
  PoolCapacity,
  PoolKey,
  PromotedTemplate,
  Promotion,
  Sandbox,
  SandboxRecord,
  Size,
  Snapshot,
} from "./domain.ts";
export type {
  AgePosition,
  CallOptions,
  InventorySource,
  ListOptions,
  Logger,
  NodeCaptures,
  NodeCheckpoint,
  NodeCheckpointClaim,
  NodeClaim,
  NodeClaimReply,
  NodeClient,
  NodeClients,
  NodeDelivery,
  NodeFailure,
  NodeFailureKind,
  NodeFork,
  NodeSandbox,
  PageOptions,
  SandboxCaptures,
  SandboxEvent,
  SandboxPage,
  SandboxQueries,
  SandboxStore,
  SelectOptions,
  WatchOptions,
} from "./ports.ts";
export { addressHost, metadataText, sandboxObject } from "./sandbox-object.ts";
export type { SandboxCondition, SandboxObject } from "./sandbox-object.ts";
export { hasSameContent, resourceVersionOf } from "./resource-version.ts";
export { compareSandboxes } from "./sandbox-view.ts";
export type { SandboxPlace } from "./sandbox-view.ts";
export { parseFieldSelector } from "./field-selector.ts";
export type { FieldRequirement } from "./field-selector.ts";
export { parseLabelSelector } from "./label-selector.ts";
export type { LabelRequirement } from "./label-selector.ts";
export { parseSelection } from "./selection.ts";
export type { Selection } from "./selection.ts";
export { isScaleError, ScaleError } from "./errors.ts";
export type { ScaleErrorCode, ScaleErrorDetails } from "./errors.ts";
export { createStore } from "./store.ts";
export type { StoreOptions } from "./store.ts";
export { NodeIndex } from "./node-index.ts";
export { guestAccessToken, sameSecret } from "./guest-token.ts";
