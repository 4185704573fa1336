import { GROUP, GROUP_VERSION, VERSION } from "../group.ts";
import { RESOURCE_TABLE } from "../resource-table.ts";
import type { ResourceVerb } from "../resource-table.ts";
import { META_SCHEMAS } from "./meta-schemas.ts";
import { schemaName } from "./sandbox-schemas.ts";
import { reference } from "./schema.ts";
import type { GroupVersionKind, Schema } from "./schema.ts";
import { schemas } from "./schemas.ts";

/** A parameter of an operation. */
interface Parameter {
  readonly name: string;
  readonly in: "query" | "path";
  readonly description: string;
  readonly required?: boolean;
  readonly schema: Schema;
}

/** An operation of a path. */
export interface Operation {
  readonly tags: readonly string[];
  readonly description: string;
  readonly operationId: string;
  readonly parameters: readonly Parameter[];
  readonly requestBody?: object;
  readonly responses: Readonly<Record<string, object>>;
  readonly "x-kubernetes-action": string;
  readonly "x-kubernetes-group-version-kind": GroupVersionKind;
}

/** The document of the group's version. */
export interface OpenApiDocument {
  readonly openapi: "3.0.0";
  readonly info: { readonly title: string; readonly version: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: typeof schemas };
}

const ROOT = `/apis/${GROUP_VERSION}`;
const TAG = "agentsXK8sIo_v1beta1";
const OBJECT_TYPES = ["application/json", "application/yaml"] as const;
const PATCH_TYPES = ["application/apply-patch+yaml", "application/merge-patch+json"] as const;

function query(name: string, description: string, type: "string" | "boolean" | "integer" = "string"): Parameter {
  return { name, in: "query", description, schema: { type } };
}

function inPath(name: string, description: string): Parameter {
  return { name, in: "path", description, required: true, schema: { type: "string" } };
}

const PRETTY = query("pretty", "Whether JSON is indented.");
const NAMESPACE = inPath("namespace", "Namespace of the sandboxes.");
const NAME = inPath("name", "Name of the sandbox.");
const FIELD_VALIDATION = query(
  "fieldValidation",
  "What happens to members that are not known or said twice: Ignore, Warn (the default) or Strict, which refuses them.",
);
const DRY_RUN = query("dryRun", "Refused: nothing is tried out.");
const FIELD_MANAGER = query("fieldManager", "Who writes. A server-side apply needs one; nothing is kept of it.");

const LIST: readonly Parameter[] = [
  query("allowWatchBookmarks", "Whether a watch may send bookmarks.", "boolean"),
  query("continue", "Token of the former part of the list."),
  query("fieldSelector", "Selects by metadata.name, metadata.namespace and status.nodeName."),
  query("labelSelector", "Selects by labels."),
  query("limit", "The most items of one part.", "integer"),
  query("resourceVersion", "Version from which a watch goes on."),
  query("resourceVersionMatch", "How the version is meant."),
  query("sendInitialEvents", "Whether a watch begins with what there is and says when that was sent.", "boolean"),
  query("timeoutSeconds", "When a watch ends.", "integer"),
  query("watch", "Whether changes are streamed.", "boolean"),
];

const DELETE: readonly Parameter[] = [
  DRY_RUN,
  query("gracePeriodSeconds", "Accepted, without effect.", "integer"),
  query("orphanDependents", "Accepted, without effect.", "boolean"),
  query("propagationPolicy", "Accepted, without effect."),
];

/** Verbs that have an operation of their own: a watch is a list. */
type OperationVerb = Exclude<ResourceVerb, "watch">;

/** What the operations of one verb have in common. The body is the kind of the path unless a schema is named. */
interface VerbShape {
  readonly action: string;
  readonly parameters: readonly Parameter[];
  readonly success: number;
  readonly body?: {
    readonly types: readonly string[];
    readonly schema: string | undefined;
    readonly required: boolean;
  };
  readonly method: string;
}

const WRITE: readonly Parameter[] = [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];

const SHAPES: Readonly<Record<OperationVerb, VerbShape>> = {
  create: {
    method: "post",
    action: "post",
    parameters: WRITE,
    success: 201,
    body: { types: OBJECT_TYPES, schema: undefined, required: true },
  },
  patch: {
    method: "patch",
    action: "patch",
    parameters: [...WRITE, query("force", "Accepted, without effect.", "boolean")],
    success: 200,
    body: { types: PATCH_TYPES, schema: META_SCHEMAS.patch, required: true },
  },
  delete: {
    method: "delete",
    action: "delete",
    parameters: DELETE,
    success: 200,
    body: { types: OBJECT_TYPES, schema: META_SCHEMAS.deleteOptions, required: false },
  },
  list: { method: "get", action: "list", parameters: LIST, success: 200 },
  get: { method: "get", action: "get", parameters: [], success: 200 },
};

function content(types: readonly string[], schema: string): object {
  return Object.fromEntries(types.map((type) => [type, { schema: reference(schema) }]));
}

function operation(
  verb: OperationVerb,
  kind: string,
  { input, output, id, inside }: { input: string; output: string; id: string; inside: readonly Parameter[] },
): readonly [string, Operation] {
  const { method, action, parameters, success, body } = SHAPES[verb];
  return [
    method,
    {
      tags: [TAG],
      description: `${verb} ${kind}`,
      operationId: `${verb}${id}`,
      parameters: [...inside, ...parameters, PRETTY],
      ...(body !== undefined && {
        requestBody: { required: body.required, content: content(body.types, body.schema ?? schemaName(input)) },
      }),
      responses: {
        [success]: { description: "Done", content: content(OBJECT_TYPES, schemaName(output)) },
        ...(verb === "patch" && {
          201: { description: "Created", content: content(OBJECT_TYPES, schemaName(output)) },
        }),
        default: { description: "Refused", content: content(OBJECT_TYPES, META_SCHEMAS.status) },
      },
      "x-kubernetes-action": action,
      "x-kubernetes-group-version-kind": { group: GROUP, version: VERSION, kind },
    },
  ];
}

/**
 * The OpenAPI document of the group's version. Clients read schemas out of it, and from the patch operation's parameter
 * `fieldValidation` that the server checks fields by itself. Kube specification §2.9.
 */
export function openApiDocument(version: string): OpenApiDocument {
  const { kind, listKind, subresources } = RESOURCE_TABLE;
  const object = { input: kind, output: kind };
  const many = { input: kind, output: listKind };
  const namespaced = `${ROOT}/namespaces/{namespace}/${RESOURCE_TABLE.name}`;
  const paths: Record<string, Record<string, Operation>> = {
    [`${ROOT}/${RESOURCE_TABLE.name}`]: Object.fromEntries([
      operation("list", kind, { ...many, id: `${kind}ForAllNamespaces`, inside: [] }),
    ]),
    [namespaced]: Object.fromEntries([
      operation("list", kind, { ...many, id: `Namespaced${kind}`, inside: [NAMESPACE] }),
      operation("create", kind, { ...object, id: `Namespaced${kind}`, inside: [NAMESPACE] }),
    ]),
    [`${namespaced}/{name}`]: Object.fromEntries(
      (["get", "patch", "delete"] as const).map((verb) =>
        operation(verb, kind, { ...object, id: `Namespaced${kind}`, inside: [NAME, NAMESPACE] }),
      ),
    ),
  };
  for (const { name, kind: input, result: output } of subresources) {
    const id = `Namespaced${kind}${name.charAt(0).toUpperCase()}${name.slice(1)}`;
    paths[`${namespaced}/{name}/${name}`] = Object.fromEntries([
      operation("create", input, { input, output, id, inside: [NAME, NAMESPACE] }),
    ]);
  }
  return { openapi: "3.0.0", info: { title: "Sandboxes", version }, paths, components: { schemas } };
}
