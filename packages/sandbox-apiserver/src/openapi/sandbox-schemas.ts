import { GROUP, VERSION } from "../group.ts";
import { META_SCHEMAS, TYPE_MEMBERS } from "./meta-schemas.ts";
import { described, flag, listOf, reference, text, textMap, whole } from "./schema.ts";
import type { Schema, Schemas } from "./schema.ts";

const PREFIX = "io.x-k8s.agents.v1beta1";

/** Name of the schema of a kind. */
export function schemaName(kind: string): string {
  return `${PREFIX}.${kind}`;
}

const typed = (kind: string): Pick<Schema, "type" | "x-kubernetes-group-version-kind"> => ({
  type: "object",
  "x-kubernetes-group-version-kind": [{ group: GROUP, version: VERSION, kind }],
});

const time = (description: string): Schema => ({ description, allOf: [reference(META_SCHEMAS.time)] });

const quantities = (description: string): Schema => ({
  type: "object",
  description,
  additionalProperties: reference(META_SCHEMAS.quantity),
});

/** The schemas of sandboxes and of what their subresources take and give. Kube specification §2.3 and §2.9. */
export const sandboxSchemas: Schemas = {
  [schemaName("Sandbox")]: {
    ...typed("Sandbox"),
    description: "A sandbox: a small virtual machine that a node had warm and that is claimed until its lease ends.",
    required: ["spec"],
    properties: {
      ...TYPE_MEMBERS,
      metadata: described("Metadata of the sandbox.", META_SCHEMAS.objectMeta),
      spec: described("What is claimed. Read once at the create; reads do not show it.", schemaName("SandboxSpec")),
      status: described("What the sandbox's node reports.", schemaName("SandboxStatus")),
    },
  },
  [schemaName("SandboxList")]: {
    ...typed("SandboxList"),
    description: "Sandboxes, by namespace and name.",
    required: ["items"],
    properties: {
      ...TYPE_MEMBERS,
      metadata: described("Metadata of the list.", META_SCHEMAS.listMeta),
      items: listOf("The sandboxes.", { allOf: [reference(schemaName("Sandbox"))], default: {} }),
    },
  },
  [schemaName("SandboxSpec")]: {
    type: "object",
    description: "What is claimed.",
    required: ["podTemplate"],
    properties: {
      podTemplate: described(
        "Names the warm pool: its template is the first container's image, its size follows from that container's resources.",
        schemaName("PodTemplate"),
      ),
      volumeClaimTemplates: {
        ...listOf("Accepted, without effect.", { type: "object", "x-kubernetes-preserve-unknown-fields": true }),
        "x-kubernetes-list-type": "atomic",
      },
      service: flag("Accepted, without effect."),
      shutdownTime: time("When the lease ends. It wins over the annotation sandbox.cocoonstack.io/ttl-seconds."),
      shutdownPolicy: {
        ...text("Accepted, without effect: a sandbox whose lease ended is gone. Delete or Retain."),
        enum: ["Delete", "Retain"],
      },
      operatingMode: {
        ...text("Patched to Suspended the sandbox is paused, to Running it is resumed. Without effect at a create."),
        enum: ["Running", "Suspended"],
      },
    },
  },
  [schemaName("PodTemplate")]: {
    type: "object",
    description: "Template of a pod, as far as it names a warm pool.",
    required: ["spec"],
    properties: {
      metadata: described("Metadata of the template.", schemaName("PodMetadata")),
      spec: described("Specification of the pod.", schemaName("PodSpec")),
    },
  },
  [schemaName("PodMetadata")]: {
    type: "object",
    description: "Metadata of a pod template.",
    properties: {
      labels: textMap("Accepted, without effect."),
      annotations: textMap("sandbox.cocoonstack.io/net names the network lane, unless the sandbox itself does."),
    },
  },
  [schemaName("PodSpec")]: {
    type: "object",
    description: "Specification of a pod. Its first container counts; everything else is accepted, without effect.",
    properties: {
      containers: listOf("Containers. The first one counts.", {
        allOf: [reference(schemaName("Container"))],
        default: {},
      }),
    },
    "x-kubernetes-preserve-unknown-fields": true,
  },
  [schemaName("Container")]: {
    type: "object",
    description: "A container. Everything but its image and resources is accepted, without effect.",
    properties: {
      name: text("Name of the container."),
      image: text("Template of the warm pool."),
      resources: described("Decides the size of the sandbox.", schemaName("ResourceRequirements")),
    },
    "x-kubernetes-preserve-unknown-fields": true,
  },
  [schemaName("ResourceRequirements")]: {
    type: "object",
    description:
      "More than 4 processors or 8Gi of memory is large, more than 1 processor or 2Gi is medium, anything else small.",
    properties: {
      requests: quantities("What is asked for: cpu and memory."),
      limits: quantities("Stands in, each by itself, for a request that is absent or zero."),
    },
    "x-kubernetes-preserve-unknown-fields": true,
  },
  [schemaName("SandboxStatus")]: {
    type: "object",
    description: "What the sandbox's node reports.",
    properties: {
      nodeName: text("Node that runs the sandbox."),
      podIPs: listOf("Host of the sandbox's address.", { type: "string", default: "" }),
      conditions: {
        ...listOf("The condition Ready.", { allOf: [reference(META_SCHEMAS.condition)], default: {} }),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
      },
      serviceFQDN: text("Not used."),
      service: text("Not used."),
      selector: text("Not used."),
    },
  },
  [schemaName("SandboxPauseOptions")]: {
    ...typed("SandboxPauseOptions"),
    description: "Options of a pause: none.",
    properties: TYPE_MEMBERS,
  },
  [schemaName("SandboxResumeOptions")]: {
    ...typed("SandboxResumeOptions"),
    description: "Options of a resume: none.",
    properties: TYPE_MEMBERS,
  },
  [schemaName("SandboxForkOptions")]: {
    ...typed("SandboxForkOptions"),
    description: "Options of a fork.",
    properties: {
      ...TYPE_MEMBERS,
      count: whole("How many copies are made. 0 and absent stand for 1.", "int32"),
      ttlSeconds: whole("Length of the copies' leases. 0 and absent stand for the node's default.", "int64"),
    },
  },
  [schemaName("SandboxForkResult")]: {
    ...typed("SandboxForkResult"),
    description: "The copies of a fork.",
    properties: {
      ...TYPE_MEMBERS,
      children: listOf("The copies.", { allOf: [reference(schemaName("SandboxForkChild"))], default: {} }),
    },
  },
  [schemaName("SandboxForkChild")]: {
    type: "object",
    description: "One copy.",
    required: ["sandboxID", "nodeName"],
    properties: {
      sandboxID: text("Id of the copy, which is its name as well."),
      nodeName: text("Node that runs it."),
      address: text("Address of that node."),
      token: text("Token of the copy: a credential that is shown here only."),
    },
  },
  [schemaName("SandboxSnapshotOptions")]: {
    ...typed("SandboxSnapshotOptions"),
    description: "Options of a snapshot.",
    properties: { ...TYPE_MEMBERS, name: text("Name of the snapshot; may be empty.") },
  },
  [schemaName("SandboxSnapshotResult")]: {
    ...typed("SandboxSnapshotResult"),
    description: "A snapshot.",
    required: ["snapshotID", "nodeName"],
    properties: {
      ...TYPE_MEMBERS,
      snapshotID: text("Id of the snapshot."),
      name: text("Name of the snapshot."),
      nodeName: text("Node that holds it."),
      creationTimestamp: time("When it was made."),
    },
  },
};
