import type { Item } from "./item.ts";

/**
 * A sandbox before and after. One that is the same on both sides did not change: another sandbox of its name left or
 * changed, and clients that know sandboxes by name must hear of the one that is left.
 */
export interface Change {
  readonly before: Item | undefined;
  readonly after: Item | undefined;
}

/** What happened between two versions of the fleet. */
export interface Step {
  readonly ordinal: number;
  readonly version: string;
  readonly changes: readonly Change[];
  /** What watches made of it, while it is the last step. */
  readonly encoded: Map<string, EncodedStep>;
}

/** A step as the watches with one selection and one form send it, in chunks. */
export interface EncodedStep {
  /** How many chunks it has; 0 when the selection sees nothing of it. */
  readonly size: number;
  chunk(index: number): Uint8Array<ArrayBuffer>;
  /** The step is no longer the last one: readers that lag write for themselves. */
  release(): void;
}
