import { sandboxObject } from "@org/scale";
import type { Sandbox, SandboxCondition, SandboxObject } from "@org/scale";
import { GROUP_VERSION, KIND } from "../group.ts";
import { sandboxUid } from "../sandbox-uid.ts";

/** A sandbox as the API shows it. It never holds a token. Kube specification §2.3. */
export interface SandboxResource extends SandboxBody {
  readonly kind: typeof KIND;
  readonly apiVersion: typeof GROUP_VERSION;
}

/** A {@link SandboxResource} as an item of a list: the list says what it is. */
export interface SandboxBody {
  readonly metadata: SandboxObject["metadata"] & { readonly uid?: string };
  readonly spec: {
    readonly podTemplate: {
      readonly metadata: Readonly<Record<string, never>>;
      readonly spec: { readonly containers: readonly never[] };
    };
  };
  readonly status: Omit<SandboxObject["status"], "conditions"> & {
    /** Since when a condition holds is not known; the time of the claim stands for it. */
    readonly conditions: readonly (SandboxCondition & { readonly lastTransitionTime: string | null })[];
  };
}

/** Nothing of a submitted spec survives the claim. */
const SPEC: SandboxBody["spec"] = Object.freeze({
  podTemplate: Object.freeze({ metadata: Object.freeze({}), spec: Object.freeze({ containers: Object.freeze([]) }) }),
});

/** What a list says of a sandbox. */
export function sandboxBody(sandbox: Sandbox): SandboxBody {
  const { metadata, status } = sandboxObject(sandbox);
  const { name, namespace, ...rest } = metadata;
  const uid = sandboxUid(sandbox.node, sandbox.id);
  const lastTransitionTime = metadata.creationTimestamp ?? null;
  return {
    metadata: { name, namespace, ...(uid !== undefined && { uid }), ...rest },
    spec: SPEC,
    status: { ...status, conditions: status.conditions.map((condition) => ({ ...condition, lastTransitionTime })) },
  };
}

/** What a read of one says of a sandbox. */
export function sandboxResource(sandbox: Sandbox): SandboxResource {
  return { kind: KIND, apiVersion: GROUP_VERSION, ...sandboxBody(sandbox) };
}
