import type { Effort } from "./compare.ts";
import type { Figure } from "./figures.ts";
import type { FleetSize } from "./fleet.ts";

/** What a suite works with. */
export interface Bench {
  readonly quick: boolean;
  readonly effort: Effort;
  /** Fleets from the smallest to the largest. */
  readonly fleets: readonly FleetSize[];
  /** Tells a figure as soon as it is there. */
  readonly report: (figure: Figure) => void;
}

/** Figures that are measured together. */
export interface Suite {
  readonly name: string;
  /** In one line. */
  readonly what: string;
  /** Starts real guests, which takes seconds: a quick run leaves it out unless it is asked for. */
  readonly realGuests?: boolean;
  readonly run: (bench: Bench) => Promise<void>;
}

/** The largest fleet of a run. */
export function largest(bench: Bench): FleetSize {
  const fleet = bench.fleets.at(-1);
  if (fleet === undefined) {
    throw new Error("a run needs a fleet");
  }
  return fleet;
}
