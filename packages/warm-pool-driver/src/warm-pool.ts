import type { KubeObject, KubeResource } from "@org/kubeinventory/client";

const GROUP = { group: "extensions.agents.x-k8s.io", version: "v1beta1" };

/** Where `SandboxWarmPool` objects are in the API. */
export const WARM_POOLS: KubeResource = Object.freeze({ ...GROUP, plural: "sandboxwarmpools" });

/** Where `SandboxTemplate` objects are in the API. */
export const TEMPLATES: KubeResource = Object.freeze({ ...GROUP, plural: "sandboxtemplates" });

/** What a pool's status says, as far as the driver writes it. */
export interface PoolStatus {
  readonly replicas: number;
  readonly readyReplicas: number;
  readonly selector: string;
  readonly observedGeneration?: number | undefined;
}

/** A `SandboxWarmPool` as the driver reads it. */
export interface WarmPool {
  /** `<namespace>/<name>`. */
  readonly key: string;
  readonly namespace: string;
  readonly name: string;
  /** How many sandboxes shall be warm; `undefined` for what is no count. */
  readonly replicas: number | undefined;
  /** The template in the same namespace. */
  readonly templateName: string | undefined;
  readonly generation: number | undefined;
  /** Whether it is being deleted: it wants nothing any more. */
  readonly leaving: boolean;
  /** Changes with everything the driver acts on, and not with the status. */
  readonly wish: string;
  readonly status: Readonly<Record<string, unknown>>;
  readonly object: KubeObject;
}

/** Reads a pool. Replicas are 1 unless it says otherwise. */
export function readWarmPool(object: KubeObject): WarmPool {
  const { name, namespace = "" } = object.metadata;
  const metadata = members(object.metadata);
  const spec = members(object["spec"]);
  const replicas = spec["replicas"] ?? 1;
  const templateName = members(spec["sandboxTemplateRef"])["name"];
  const generation = Number.isSafeInteger(metadata["generation"]) ? (metadata["generation"] as number) : undefined;
  const leaving = typeof metadata["deletionTimestamp"] === "string";
  return {
    key: `${namespace}/${name}`,
    namespace,
    name,
    replicas: Number.isSafeInteger(replicas) && (replicas as number) >= 0 ? (replicas as number) : undefined,
    templateName: typeof templateName === "string" && templateName !== "" ? templateName : undefined,
    generation,
    leaving,
    wish: `${leaving} ${String(metadata["uid"])} ${generation ?? JSON.stringify(spec)}`,
    status: members(object["status"]),
    object,
  };
}

/** The pod template of a `SandboxTemplate`. */
export function podTemplateOf(template: KubeObject): unknown {
  return members(template["spec"])["podTemplate"];
}

/** Path of the resource's objects in a namespace. */
export function pathOf({ group, version, plural }: KubeResource, namespace: string): string {
  return `/apis/${group}/${version}/namespaces/${encodeURIComponent(namespace)}/${plural}`;
}

function members(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>)
    : {};
}
