import { durationMs, textOf, UsageError } from "@org/command-line";
import type { FlagValues } from "@org/command-line";
import type { DevNodeOptions } from "@org/devnode";
import { countOf } from "../flags.ts";

const ISOLATIONS = ["auto", "bubblewrap", "unshare", "process"] as const;

/** What the flags that `dev` and `dev-node` share say about a node. */
export type GuestFlags = Pick<DevNodeOptions, "isolation" | "maxClaims" | "refillDelayMs">;

/**
 * Reads the flags that `dev` and `dev-node` share.
 * @throws UsageError for a value that cannot be read
 */
export function guestFlags(values: FlagValues): GuestFlags {
  const wanted = textOf(values, "isolation");
  const isolation = ISOLATIONS.find((name) => name === wanted);
  if (isolation === undefined) {
    throw new UsageError(`invalid value ${JSON.stringify(wanted)} for --isolation: want ${ISOLATIONS.join(", ")}`);
  }
  const delay = textOf(values, "refill-delay");
  const refillDelayMs = durationMs(delay);
  if (refillDelayMs === undefined || refillDelayMs < 0) {
    throw new UsageError(
      `invalid value ${JSON.stringify(delay)} for --refill-delay: want a duration such as 500ms or 2s`,
    );
  }
  const maxClaims = countOf(values, "max-claims");
  return { isolation, refillDelayMs, maxClaims };
}
