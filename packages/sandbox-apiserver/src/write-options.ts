import { badRequest, invalid } from "./api-status.ts";

/** How a write treats members that are not known, or said twice. */
export type FieldValidation = "Ignore" | "Warn" | "Strict";

const FIELD_VALIDATIONS: readonly string[] = ["Ignore", "Strict", "Warn"];

/** Kinds of the options of writes. */
export type WriteOptionsKind = "CreateOptions" | "PatchOptions" | "DeleteOptions";

/** Names what is wrong with an option. */
interface OptionFault {
  readonly field: string;
  readonly value: string;
  readonly supported: readonly string[];
}

/**
 * Reads the options that a write has in its query.
 * @throws ApiStatusError 422 for values that do not exist, 400 for a dry run: nothing is ever tried out.
 */
export function writeOptions(query: URLSearchParams, kind: WriteOptionsKind): { fieldValidation: FieldValidation } {
  const validation = query.get("fieldValidation") ?? "";
  const faults: OptionFault[] = dryRunFaults(query.getAll("dryRun"));
  if (validation !== "" && !FIELD_VALIDATIONS.includes(validation)) {
    faults.push({ field: "fieldValidation", value: validation, supported: FIELD_VALIDATIONS });
  }
  refuseFaults(faults, kind);
  refuseDryRun(query.getAll("dryRun"));
  return { fieldValidation: validation === "Ignore" || validation === "Strict" ? validation : "Warn" };
}

/** What is wrong with the values of a dry run. */
export function dryRunFaults(values: readonly string[]): OptionFault[] {
  return values
    .filter((value) => value !== "" && value !== "All")
    .map((value) => ({ field: "dryRun", value, supported: ["All"] }));
}

/** @throws ApiStatusError 422 when there is a fault. */
export function refuseFaults(faults: readonly OptionFault[], kind: WriteOptionsKind): void {
  if (faults.length > 0) {
    throw invalid(
      faults.map(({ field, value, supported }) => ({
        reason: "FieldValueNotSupported",
        field,
        message: `Unsupported value: ${JSON.stringify(value)}: supported values: ${supported.map((one) => JSON.stringify(one)).join(", ")}`,
      })),
      { group: "meta.k8s.io", kind },
    );
  }
}

/** @throws ApiStatusError 400 for a dry run. */
export function refuseDryRun(values: readonly string[]): void {
  if (values.includes("All")) {
    throw badRequest("dry-run is not supported");
  }
}
