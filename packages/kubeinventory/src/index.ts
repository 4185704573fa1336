/**
 * Fleet inventory out of Kubernetes objects. This version has the rule that says whose published inventory still
 * counts; it has no client of a cluster.
 */
export { DEFAULT_STALE_AFTER_MS, freshNodes } from "./staleness.ts";
export type { Published } from "./staleness.ts";
