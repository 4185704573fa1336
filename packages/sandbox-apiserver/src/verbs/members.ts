import { badRequest } from "../api-status.ts";

/** An object with members of any kind. */
export type Members = Readonly<Record<string, unknown>>;

/** The members of an object; none for what is absent or no object. */
export function membersOf(value: unknown): Members {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Members) : {};
}

/** A text, empty when absent. */
export function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/**
 * A whole number that is not negative, 0 when absent.
 * @throws ApiStatusError 400 for anything else
 */
export function countOf(value: unknown, field: string): number {
  const count = value ?? 0;
  if (typeof count !== "number" || !Number.isSafeInteger(count) || count < 0) {
    throw badRequest(`${field} must be a non-negative integer`);
  }
  return count;
}
