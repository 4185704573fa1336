import type { PoolKey } from "./domain.ts";

/**
 * One string for all spellings of a pool key: an empty `net` means `none`, an empty `size` means `small`. The template
 * comes last, so nothing in it can be taken for another field.
 */
export function canonicalPool(key: PoolKey): string {
  return `${key.net || "none"}\n${key.size || "small"}\n${key.template}`;
}
