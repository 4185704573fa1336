import type { GROUP_VERSION, KIND } from "./group.ts";

/** Metadata of a sandbox as an answer shows it. */
export interface SandboxMetadata {
  readonly name: string;
  readonly namespace: string;
  /** The same in every answer and every process; absent while the claim id is not known. */
  readonly uid?: string | undefined;
  readonly resourceVersion?: string | undefined;
  readonly creationTimestamp?: string | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly annotations?: Readonly<Record<string, string>> | undefined;
}

/** A condition of a sandbox. */
export interface SandboxResourceCondition {
  readonly type: string;
  readonly status: "True" | "False" | "Unknown";
  readonly reason: string;
  readonly message: string;
  readonly lastTransitionTime: string | null;
}

/** A sandbox as an object of the API. */
export interface SandboxResource {
  readonly apiVersion: typeof GROUP_VERSION;
  readonly kind: typeof KIND;
  readonly metadata: SandboxMetadata;
  readonly spec: Readonly<Record<string, unknown>>;
  readonly status: {
    readonly nodeName: string;
    readonly podIPs?: readonly string[] | undefined;
    readonly conditions: readonly SandboxResourceCondition[];
  };
}
