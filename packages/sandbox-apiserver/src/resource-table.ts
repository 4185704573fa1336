import { KIND, RESOURCE } from "./group.ts";

/** Verbs of the resource. */
export type ResourceVerb = "create" | "delete" | "get" | "list" | "patch" | "watch";

/** A verb of one sandbox that has a path of its own. */
export interface SubresourceRow {
  readonly name: "fork" | "pause" | "resume" | "snapshot";
  /** Kind of the body. */
  readonly kind: string;
  /** Kind of the answer. */
  readonly result: string;
}

/** The resource as discovery tells of it. */
export interface ResourceTable {
  readonly name: string;
  readonly singular: string;
  readonly kind: string;
  readonly listKind: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly verbs: readonly ResourceVerb[];
  readonly subresources: readonly SubresourceRow[];
}

/** What there is: discovery, the OpenAPI document and the routes are made of this. Kube specification §2.1. */
export const RESOURCE_TABLE: ResourceTable = {
  name: RESOURCE,
  singular: "sandbox",
  kind: KIND,
  listKind: "SandboxList",
  shortNames: ["sandbox", "sbx"],
  categories: ["all"],
  verbs: ["create", "delete", "get", "list", "patch", "watch"],
  subresources: [
    { name: "fork", kind: "SandboxForkOptions", result: "SandboxForkResult" },
    { name: "pause", kind: "SandboxPauseOptions", result: "SandboxPauseOptions" },
    { name: "resume", kind: "SandboxResumeOptions", result: "SandboxResumeOptions" },
    { name: "snapshot", kind: "SandboxSnapshotOptions", result: "SandboxSnapshotResult" },
  ],
};
