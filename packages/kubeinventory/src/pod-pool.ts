import { KubeError, record } from "./errors.ts";
import { parseQuantity } from "./quantity.ts";

/** Annotation that names the network lane of a sandbox: of the pod template, or of the Sandbox itself. */
export const NET_ANNOTATION = "sandbox.cocoonstack.io/net";

/** The pool that a pod asks for, as nodes name pools. */
export interface PodPool {
  /** The image of the first container; empty when there is none. */
  readonly template: string;
  /** What the annotation says, else `none`. Nodes know `none` and `egress`. */
  readonly net: string;
  readonly size: "small" | "medium" | "large";
}

/** Sizes by what they begin above, the largest first, in nanos of a processor and of a byte. */
const SIZES = [
  { size: "large", cpu: parseQuantity("4", "cpu"), memory: parseQuantity("8Gi", "memory") },
  { size: "medium", cpu: parseQuantity("1", "cpu"), memory: parseQuantity("2Gi", "memory") },
] as const;

/**
 * The pool of a pod template: one rule for the sandboxes that are claimed and for the pools that are kept warm for them.
 * The first container decides; a request of nothing falls back to its limit, each resource by itself. Kube specification
 * §2.8.
 * @param podTemplate `{ metadata?, spec }` as it came
 * @param annotations of the object around it, which win over those of the template
 * @throws KubeError `bad_object` for members of another type and for amounts that are none.
 */
export function poolKeyOf(podTemplate: unknown, annotations?: unknown): PodPool {
  const template = members(podTemplate, "podTemplate");
  const metadata = members(template["metadata"], "podTemplate.metadata");
  const own = members(metadata["annotations"], "podTemplate.metadata.annotations");
  const outer = members(annotations, "metadata.annotations");
  const spec = members(template["spec"], "podTemplate.spec");
  const containers = spec["containers"] ?? [];
  if (!Array.isArray(containers)) {
    throw new KubeError("bad_object", "podTemplate.spec.containers must be a list");
  }
  const where = "podTemplate.spec.containers[0]";
  const container = members(containers[0], where);
  return {
    template: text(container["image"], `${where}.image`),
    net:
      text(outer[NET_ANNOTATION], `metadata.annotations[${NET_ANNOTATION}]`) ||
      text(own[NET_ANNOTATION], `podTemplate.metadata.annotations[${NET_ANNOTATION}]`) ||
      "none",
    size: sizeOf(members(container["resources"], `${where}.resources`), `${where}.resources`),
  };
}

function sizeOf(resources: Readonly<Record<string, unknown>>, where: string): PodPool["size"] {
  const requests = members(resources["requests"], `${where}.requests`);
  const limits = members(resources["limits"], `${where}.limits`);
  const amount = (name: "cpu" | "memory"): bigint => {
    const [request, limit] = [
      parseQuantity(requests[name] ?? 0, `${where}.requests.${name}`),
      parseQuantity(limits[name] ?? 0, `${where}.limits.${name}`),
    ];
    return request === 0n ? limit : request;
  };
  const [cpu, memory] = [amount("cpu"), amount("memory")];
  return SIZES.find((tier) => cpu > tier.cpu || memory > tier.memory)?.size ?? "small";
}

/** The members of an object; none for what is absent. */
function members(value: unknown, field: string): Readonly<Record<string, unknown>> {
  if (value !== undefined && value !== null && (typeof value !== "object" || Array.isArray(value))) {
    throw new KubeError("bad_object", `${field} must be an object`);
  }
  return record(value);
}

function text(value: unknown, field: string): string {
  if (value !== undefined && value !== null && typeof value !== "string") {
    throw new KubeError("bad_object", `${field} must be a string`);
  }
  return value ?? "";
}
