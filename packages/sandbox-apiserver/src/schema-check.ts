import { fieldPath } from "./json-duplicates.ts";
import type { Schema, Schemas } from "./openapi/schema.ts";

/** What is wrong with an object. */
export interface SchemaFaults {
  /** Paths of members that the schema does not know. */
  readonly unknown: readonly string[];
  /** Members that are of another type: path and what is expected there. */
  readonly mistyped: readonly string[];
}

const REFERENCE = /^#\/components\/schemas\//;

/** RFC 3339 with a date, a time and a zone. */
const DATE_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/i;

/** Whether a text is a moment as RFC 3339 writes it. */
export function isDateTime(text: string): boolean {
  return DATE_TIME.test(text) && !Number.isNaN(Date.parse(text));
}

/**
 * Compares an object with a named schema: which of its members are not known, and which are of another type. Absent
 * members and `null` fit everywhere. What the schema preserves is not looked into.
 */
export function checkSchema(value: unknown, name: string, schemas: Schemas): SchemaFaults {
  const unknown: string[] = [];
  const mistyped: string[] = [];
  visit(value, { $ref: `#/components/schemas/${name}` }, "");
  return { unknown, mistyped };

  function visit(given: unknown, schema: Schema, path: string): void {
    const target = resolve(schema, schemas);
    if (given === null || given === undefined || target.oneOf !== undefined) {
      return;
    }
    if (!fits(given, target)) {
      mistyped.push(`${path || "."}: expected ${expectation(target)}`);
    } else if (Array.isArray(given)) {
      for (const [at, item] of given.entries()) {
        visit(item, target.items ?? {}, `${path}[${at}]`);
      }
    } else if (typeof given === "object") {
      members(given, target, path);
    }
  }

  function members(given: object, schema: Schema, path: string): void {
    const { properties, additionalProperties } = schema;
    const open = schema["x-kubernetes-preserve-unknown-fields"] === true || properties === undefined;
    for (const [key, inner] of Object.entries(given)) {
      const place = fieldPath(path, key);
      const known = properties !== undefined && Object.hasOwn(properties, key) ? properties[key] : additionalProperties;
      if (known !== undefined) {
        visit(inner, known, place);
      } else if (!open) {
        unknown.push(place);
      }
    }
  }
}

/** The schema itself for a reference, alone or beside a description. */
function resolve(schema: Schema, schemas: Schemas): Schema {
  const target = schema.$ref ?? schema.allOf?.[0]?.$ref;
  return target === undefined ? schema : (schemas[target.replace(REFERENCE, "")] ?? schema);
}

function fits(value: unknown, { type, format }: Schema): boolean {
  switch (type) {
    case undefined:
      return true;
    case "array":
      return Array.isArray(value);
    case "object":
      return typeof value === "object" && !Array.isArray(value);
    case "integer":
      return Number.isSafeInteger(value) && (format !== "int32" || Math.abs(Number(value)) < 2 ** 31);
    case "string":
      return typeof value === "string" && (format !== "date-time" || isDateTime(value));
    case "boolean":
    case "number":
      break;
  }
  return typeof value === type;
}

function expectation({ type, format }: Schema): string {
  return format === "date-time" ? "an RFC 3339 time" : `${type === "integer" ? (format ?? type) : type}`;
}
