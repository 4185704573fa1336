import { badRequest } from "../api-status.ts";
import { membersOf, textOf } from "./members.ts";
import type { Members } from "./members.ts";

/** Annotation with the length of a lease in seconds. */
const TTL_ANNOTATION = "sandbox.cocoonstack.io/ttl-seconds";

const WHOLE = /^\+?\d{1,15}$/;

/**
 * Length of the lease that an object asks for, in seconds; 0 for the node's default. The end in its specification wins
 * over the length in its annotation.
 * @throws ApiStatusError 400 for an end that is over, and for a length that is no non-negative whole number.
 */
export function leaseSeconds(object: Members, nowMs: number): number {
  const end = textOf(membersOf(object["spec"])["shutdownTime"]);
  if (end !== "") {
    return secondsUntil(end, nowMs);
  }
  const annotations = membersOf(membersOf(object["metadata"])["annotations"]);
  const length = textOf(annotations[TTL_ANNOTATION]);
  if (length !== "" && !WHOLE.test(length)) {
    throw badRequest(
      `annotation ${TTL_ANNOTATION} must be a non-negative integer, not ${JSON.stringify(length.slice(0, 64))}`,
    );
  }
  return Number(length);
}

/**
 * Seconds until an end, rounded up.
 * @throws ApiStatusError 400 for an end that is over
 */
export function secondsUntil(end: string, nowMs: number): number {
  const seconds = Math.ceil((Date.parse(end) - nowMs) / 1000);
  if (seconds <= 0) {
    throw badRequest(`spec.shutdownTime ${end} is in the past`);
  }
  return seconds;
}
