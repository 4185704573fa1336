/** Reads of sandboxes: objects, lists and watches in every form that Kubernetes clients ask for. */
export { createSandboxReads } from "./sandbox-reads.ts";
export type { ReadRequest, SandboxReads, SandboxReadsOptions } from "./sandbox-reads.ts";
export type { SandboxResource } from "./sandbox-resource.ts";
