import type { PoolKey } from "@org/scale";

/** A pool key with nothing left out. */
export interface FullKey {
  readonly template: string;
  readonly net: string;
  readonly size: string;
}

/** The same pool has the same text. */
export function keyText({ template, net, size }: PoolKey): string {
  return JSON.stringify([template, net || "none", size || "small"]);
}

/** Orders keys by template, network lane and size, in code units. */
export function compareKeys(a: FullKey, b: FullKey): number {
  return compare(a.template, b.template) || compare(a.net, b.net) || compare(a.size, b.size);
}

/** Orders text by its code units. */
export function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
