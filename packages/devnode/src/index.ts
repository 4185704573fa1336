/**
 * A node that speaks sandboxd's HTTP API and needs neither a virtual machine nor a cluster: its guests are isolated
 * process trees, each with its own files, processes, ports and an envd-compatible daemon. For development and tests.
 * Guests end with the process that made them, however it ends.
 */
export { startDevNode } from "./dev-node.ts";
export type { DevNode } from "./dev-node.ts";
export type { DevNodeOptions, DevNodePool } from "./options.ts";
export type { Tenant } from "./node/access.ts";
export type { DevNodeLogger } from "./logger.ts";
export type { Isolation } from "./host/launch.ts";
export type { FreezerKind } from "./host/guest-host.ts";
export { sweepState } from "./host/run-folder.ts";
export { DevNodeError, isDevNodeError } from "./errors.ts";
export type { DevNodeErrorCode } from "./errors.ts";
