import { described, flag, listOf, reference, text, textMap, whole } from "./schema.ts";
import type { Schema, Schemas } from "./schema.ts";

/** Names of the schemas that every API of Kubernetes has. */
export const META_SCHEMAS = {
  objectMeta: "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
  listMeta: "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta",
  ownerReference: "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference",
  managedFields: "io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry",
  fields: "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
  time: "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
  condition: "io.k8s.apimachinery.pkg.apis.meta.v1.Condition",
  deleteOptions: "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
  preconditions: "io.k8s.apimachinery.pkg.apis.meta.v1.Preconditions",
  patch: "io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
  status: "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
  statusDetails: "io.k8s.apimachinery.pkg.apis.meta.v1.StatusDetails",
  statusCause: "io.k8s.apimachinery.pkg.apis.meta.v1.StatusCause",
  quantity: "io.k8s.apimachinery.pkg.api.resource.Quantity",
} as const;

const time = (description: string): Schema => ({ description, allOf: [reference(META_SCHEMAS.time)] });

/** Members that every object has. */
export const TYPE_MEMBERS: Readonly<Record<string, Schema>> = {
  apiVersion: text("Version of the schema of this representation."),
  kind: text("Resource that this object represents, in CamelCase."),
};

/** The schemas that every API of Kubernetes has, as far as this one speaks of them. */
export const metaSchemas: Schemas = {
  [META_SCHEMAS.time]: { type: "string", format: "date-time", description: "A moment, as RFC 3339 writes it." },
  [META_SCHEMAS.quantity]: {
    description: "An amount: a number with an optional decimal or binary suffix, such as 500m, 2 or 512Mi.",
    oneOf: [{ type: "string" }, { type: "number" }],
  },
  [META_SCHEMAS.fields]: { type: "object", description: "A set of fields, in the notation of managed fields." },
  [META_SCHEMAS.objectMeta]: {
    type: "object",
    description: "Metadata of an object.",
    properties: {
      name: text("Name, unique within the namespace unless sandboxes are claimed twice under one name."),
      generateName: text("Prefix of a name that the server completes when no name is given."),
      namespace: text("Namespace. That of the request's path when absent."),
      labels: textMap("Labels. The server sets node, phase, template and claim, and keeps no others."),
      annotations: textMap(
        "Annotations. At a create sandbox.cocoonstack.io/net (none or egress) names the network lane and " +
          "sandbox.cocoonstack.io/ttl-seconds the length of the lease; others are not kept.",
      ),
      uid: text("Set by the server: the same for as long as the sandbox lives on its node."),
      resourceVersion: text("Set by the server: changes with the content. May be a precondition of a delete or patch."),
      creationTimestamp: time("Set by the server: when the sandbox was claimed."),
      deletionTimestamp: time("Not used: sandboxes are deleted at once."),
      deletionGracePeriodSeconds: whole("Not used.", "int64"),
      generation: whole("Not kept.", "int64"),
      selfLink: text("Not used."),
      finalizers: listOf("Not kept: sandboxes are deleted at once.", { type: "string", default: "" }),
      ownerReferences: listOf("Not kept.", { allOf: [reference(META_SCHEMAS.ownerReference)], default: {} }),
      managedFields: listOf("Not kept.", { allOf: [reference(META_SCHEMAS.managedFields)], default: {} }),
    },
  },
  [META_SCHEMAS.ownerReference]: {
    type: "object",
    description: "An object that another one belongs to.",
    required: ["apiVersion", "kind", "name", "uid"],
    properties: {
      apiVersion: text("API version of the owner."),
      kind: text("Kind of the owner."),
      name: text("Name of the owner."),
      uid: text("UID of the owner."),
      controller: flag("Whether the owner manages the object."),
      blockOwnerDeletion: flag("Whether the owner stays until this reference is gone."),
    },
    "x-kubernetes-map-type": "atomic",
  },
  [META_SCHEMAS.managedFields]: {
    type: "object",
    description: "Fields that one manager has set.",
    properties: {
      apiVersion: text("Version of the fields."),
      fieldsType: text("Notation of the fields."),
      fieldsV1: { description: "The fields.", allOf: [reference(META_SCHEMAS.fields)] },
      manager: text("Who set them."),
      operation: text("Apply or Update."),
      subresource: text("Subresource through which they were set."),
      time: time("When they were set."),
    },
  },
  [META_SCHEMAS.listMeta]: {
    type: "object",
    description: "Metadata of a list.",
    properties: {
      continue: text("Token that asks for the next part of the list; empty when nothing follows."),
      remainingItemCount: whole("How many items follow this part.", "int64"),
      resourceVersion: text("Version of the list, from which a watch may go on."),
      selfLink: text("Not used."),
    },
  },
  [META_SCHEMAS.condition]: {
    type: "object",
    description: "One aspect of an object's state.",
    required: ["type", "status", "lastTransitionTime", "reason", "message"],
    properties: {
      type: text("Name of the aspect, such as Ready."),
      status: { ...text("Whether it holds."), enum: ["True", "False", "Unknown"] },
      observedGeneration: whole("Generation that the condition speaks of.", "int64"),
      lastTransitionTime: time("When the status changed last."),
      reason: text("One word that says why."),
      message: text("A sentence for people."),
    },
  },
  [META_SCHEMAS.patch]: {
    type: "object",
    description: "A partial object.",
    "x-kubernetes-preserve-unknown-fields": true,
  },
  [META_SCHEMAS.preconditions]: {
    type: "object",
    description: "What must hold, or nothing is done.",
    properties: {
      uid: text("UID that the object must have."),
      resourceVersion: text("Version that the object must have."),
    },
  },
  [META_SCHEMAS.deleteOptions]: {
    type: "object",
    description: "Options of a delete.",
    properties: {
      ...TYPE_MEMBERS,
      dryRun: listOf("Refused: nothing is tried out.", { type: "string", default: "" }),
      gracePeriodSeconds: whole("Accepted, without effect: sandboxes are deleted at once.", "int64"),
      ignoreStoreReadErrorWithClusterBreakingPotential: flag("Accepted, without effect."),
      orphanDependents: flag("Accepted, without effect."),
      preconditions: described("What must hold, or the sandbox is not deleted.", META_SCHEMAS.preconditions),
      propagationPolicy: text("Accepted, without effect: Orphan, Background or Foreground."),
    },
  },
  [META_SCHEMAS.status]: {
    type: "object",
    description: "Outcome of a request.",
    properties: {
      ...TYPE_MEMBERS,
      metadata: described("Metadata of a list.", META_SCHEMAS.listMeta),
      status: text("Success or Failure."),
      message: text("A sentence for people."),
      reason: text("One word that says why."),
      details: described("More about the outcome.", META_SCHEMAS.statusDetails),
      code: whole("HTTP status.", "int32"),
    },
    "x-kubernetes-group-version-kind": [{ group: "", version: "v1", kind: "Status" }],
  },
  [META_SCHEMAS.statusDetails]: {
    type: "object",
    description: "What a Status says beyond its message.",
    properties: {
      name: text("Name of the object."),
      group: text("Group of the object."),
      kind: text("Resource of the object."),
      uid: text("UID of the object."),
      causes: listOf("Single reasons.", { allOf: [reference(META_SCHEMAS.statusCause)], default: {} }),
      retryAfterSeconds: whole("When to try again.", "int32"),
    },
  },
  [META_SCHEMAS.statusCause]: {
    type: "object",
    description: "A single reason.",
    properties: {
      field: text("Path of the member."),
      message: text("A sentence for people."),
      reason: text("One word that says why."),
    },
  },
};
