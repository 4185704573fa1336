/** A schema of OpenAPI 3.0, as far as ours go. */
export interface Schema {
  readonly type?: "object" | "array" | "string" | "integer" | "number" | "boolean" | undefined;
  readonly format?: string | undefined;
  readonly description?: string | undefined;
  readonly default?: unknown;
  readonly enum?: readonly string[] | undefined;
  readonly required?: readonly string[] | undefined;
  readonly properties?: Readonly<Record<string, Schema>> | undefined;
  readonly additionalProperties?: Schema | undefined;
  readonly items?: Schema | undefined;
  readonly oneOf?: readonly Schema[] | undefined;
  readonly allOf?: readonly Schema[] | undefined;
  readonly $ref?: string | undefined;
  readonly minimum?: number | undefined;
  readonly "x-kubernetes-preserve-unknown-fields"?: boolean | undefined;
  readonly "x-kubernetes-list-type"?: string | undefined;
  readonly "x-kubernetes-list-map-keys"?: readonly string[] | undefined;
  readonly "x-kubernetes-map-type"?: string | undefined;
  readonly "x-kubernetes-group-version-kind"?: readonly GroupVersionKind[] | undefined;
}

/** What kind an object or operation is of. */
export interface GroupVersionKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

/** Named schemas. */
export type Schemas = Readonly<Record<string, Schema>>;

/** A reference to a named schema. */
export function reference(name: string): Schema {
  return { $ref: `#/components/schemas/${name}` };
}

/** A member whose own description stands beside the named schema. */
export function described(description: string, name: string): Schema {
  return { description, allOf: [reference(name)], default: {} };
}

/** A text. */
export function text(description: string, format?: string): Schema {
  return { type: "string", description, ...(format !== undefined && { format }) };
}

/** A whole number. */
export function whole(description: string, format: "int32" | "int64"): Schema {
  return { type: "integer", format, description };
}

/** A truth value. */
export function flag(description: string): Schema {
  return { type: "boolean", description };
}

/** Texts under any keys. */
export function textMap(description: string): Schema {
  return { type: "object", description, additionalProperties: { type: "string", default: "" } };
}

/** A list of one kind of items. */
export function listOf(description: string, items: Schema): Schema {
  return { type: "array", description, items };
}
