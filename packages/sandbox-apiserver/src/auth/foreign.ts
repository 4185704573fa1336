import { internalError } from "../api-status.ts";

/** The members of an object; none for anything else. */
export function record(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>)
    : {};
}

/** The strings in an array; none for anything else. */
export function strings(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : [];
}

/** The status that a review came back with. @throws ApiStatusError 500 when it has none: nobody has reviewed it. */
export function statusOf(reply: unknown): Readonly<Record<string, unknown>> {
  const { status } = record(reply);
  if (typeof status !== "object" || status === null) {
    throw internalError("the cluster's answer is no review");
  }
  return record(status);
}
