import { unsupportedMediaType } from "./api-status.ts";

/** Types that bodies of objects come in. */
const BODY_TYPES: readonly string[] = ["application/json", "application/yaml"];

/**
 * The type of a body, without parameters and in lower case. A body without one is JSON.
 * @throws ApiStatusError 415 for a type that is not accepted.
 */
export function bodyType(contentType: string | undefined, accepted: readonly string[] = BODY_TYPES): string {
  const type = (contentType ?? "").split(";", 1).join("").trim().toLowerCase() || "application/json";
  if (!accepted.includes(type)) {
    throw unsupportedMediaType(accepted);
  }
  return type;
}
