import { badRequest } from "./api-status.ts";
import { decodeBody } from "./decode-body.ts";
import { GROUP_VERSION } from "./group.ts";
import { schemaName } from "./openapi/sandbox-schemas.ts";
import { schemas } from "./openapi/schemas.ts";
import { checkSchema } from "./schema-check.ts";
import type { FieldValidation } from "./write-options.ts";

/** A body together with how it is read. */
export interface TypedBody {
  readonly bytes: Uint8Array;
  /** Media type of the body. */
  readonly type: string;
  /** What the path takes. */
  readonly kind: string;
  readonly fieldValidation: FieldValidation;
  /** Called with what is wrong and tolerated. */
  readonly warn: (message: string) => void;
}

/** The most faults that one answer or one set of warnings names. */
const FAULTS_SHOWN = 50;

/**
 * Reads a body as an object of one kind. A body that does not say what it is, is of that kind.
 * @throws ApiStatusError 400 for a body that cannot be read, is of another kind, has members of another type, or, read
 * strictly, has members that are not known or said twice.
 */
export function typedBody({ bytes, type, kind, fieldValidation, warn }: TypedBody): Readonly<Record<string, unknown>> {
  if (bytes.byteLength === 0) {
    throw badRequest(`the body of the request is empty, expected a ${kind}`);
  }
  const { value, duplicates } = decodeBody(bytes, type);
  checkKind(value, kind);
  const { unknown, mistyped } = checkSchema(value, schemaName(kind), schemas);
  if (mistyped.length > 0) {
    throw badRequest(`${kind} in version "v1beta1" cannot be handled as a ${kind}: ${shown(mistyped).join(", ")}`);
  }
  if (fieldValidation !== "Ignore") {
    const faults = shown([
      ...duplicates.map((field) => `duplicate field ${JSON.stringify(field)}`),
      ...unknown.map((field) => `unknown field ${JSON.stringify(field)}`),
    ]);
    if (fieldValidation === "Strict" && faults.length > 0) {
      throw badRequest(
        `${kind} in version "v1beta1" cannot be handled as a ${kind}: strict decoding error: ${faults.join(", ")}`,
      );
    }
    for (const fault of faults) {
      warn(fault);
    }
  }
  return value;
}

/** @throws ApiStatusError 400 when an object says that it is another kind or version. */
export function checkKind(value: Readonly<Record<string, unknown>>, kind: string): void {
  const { apiVersion = "", kind: said = "" } = value;
  const fits = (said === "" || said === kind) && (apiVersion === "" || apiVersion === GROUP_VERSION);
  if (!fits) {
    throw badRequest(
      `the object provided is a ${JSON.stringify(said)} of ${JSON.stringify(apiVersion)}, expected a ${kind} of ${GROUP_VERSION}`,
    );
  }
}

function shown(faults: readonly string[]): readonly string[] {
  return faults.length > FAULTS_SHOWN
    ? [...faults.slice(0, FAULTS_SHOWN), `and ${faults.length - FAULTS_SHOWN} more`]
    : faults;
}
