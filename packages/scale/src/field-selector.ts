import type { Sandbox } from "./domain.ts";
import { ScaleError } from "./errors.ts";
import { quoted } from "./quoted.ts";

/** How each field that a selector may name is read. */
const FIELDS = {
  "metadata.name": (sandbox: Sandbox): string => sandbox.name,
  "metadata.namespace": (sandbox: Sandbox): string => sandbox.namespace,
  "status.nodeName": (sandbox: Sandbox): string => sandbox.node,
} as const;

/** A field that a selector may name. */
export type SelectableField = keyof typeof FIELDS;

/** One term of a field selector. */
export interface FieldRequirement {
  readonly field: SelectableField;
  /** Whether the field must have the value, or must not. */
  readonly equal: boolean;
  readonly value: string;
}

/**
 * Reads a field selector in the grammar of Kubernetes: `field=value`, `field==value` and `field!=value`, joined by
 * commas. In a value `\\`, `\,` and `\=` stand for the character itself. An empty one selects everything.
 * @throws ScaleError `bad_request` for anything else, and for every field but the three of store §9.
 */
export function parseFieldSelector(text: string): readonly FieldRequirement[] {
  return splitTerms(text)
    .filter((term) => term !== "")
    .map(parseTerm);
}

/** Whether a sandbox satisfies every requirement. */
export function matchesFields(requirements: readonly FieldRequirement[], sandbox: Sandbox): boolean {
  return requirements.every(({ field, equal, value }) => (FIELDS[field](sandbox) === value) === equal);
}

/** The value that a field must have, when the requirements name one. */
export function exactField(requirements: readonly FieldRequirement[], field: SelectableField): string | undefined {
  return requirements.find((requirement) => requirement.field === field && requirement.equal)?.value;
}

/** A selector that reads as these requirements. Equal requirements make equal text. */
export function formatFieldSelector(requirements: readonly FieldRequirement[]): string {
  return requirements
    .map(({ field, equal, value }) => `${field}${equal ? "=" : "!="}${value.replace(/[\\,=]/g, String.raw`\$&`)}`)
    .join(",");
}

/** Cuts at commas that no backslash stands before. */
function splitTerms(text: string): readonly string[] {
  const terms: string[] = [];
  let from = 0;
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] === "\\") {
      at += 1;
    } else if (text[at] === ",") {
      terms.push(text.slice(from, at));
      from = at + 1;
    }
  }
  terms.push(text.slice(from));
  return terms;
}

function parseTerm(term: string): FieldRequirement {
  const [, field = "", operator = "", escaped = ""] = /^(.*?)(==|!=|=)(.*)$/s.exec(term) ?? [];
  if (operator === "") {
    refuse(`${quoted(term)} is no field with =, == or != and a value`);
  }
  if (!isSelectable(field)) {
    refuse(`field ${quoted(field)} is not supported; ${Object.keys(FIELDS).join(", ")} are`);
  }
  return { field, equal: operator !== "!=", value: unescaped(escaped) };
}

function isSelectable(field: string): field is SelectableField {
  return Object.hasOwn(FIELDS, field);
}

function unescaped(value: string): string {
  return value.replace(/\\(.?)|=/gs, (_whole, escaped: string | undefined) => {
    if (escaped === undefined || !/^[\\,=]$/.test(escaped)) {
      refuse(`value ${quoted(value)}: a backslash stands before \\, comma and =, and before nothing else`);
    }
    return escaped;
  });
}

function refuse(why: string): never {
  throw new ScaleError("bad_request", `field selector: ${why}`);
}
