import { durationMs, textOf, UsageError } from "@org/command-line";
import type { FlagValues } from "@org/command-line";
import type { DevNodeOptions } from "@org/devnode";
import { countOf } from "../flags.ts";

const ISOLATIONS = ["auto", "bubblewrap", "unshare", "process"] as const;

const MAX_DELAY_MS = 86_400_000;

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
  // Timers hold no more than 24 days.
  if (refillDelayMs === undefined || refillDelayMs < 0 || refillDelayMs > MAX_DELAY_MS) {
    throw new UsageError(
      `invalid value ${JSON.stringify(delay)} for --refill-delay: want a duration up to 24h, such as 500ms or 2s`,
    );
  }
  const maxClaims = countOf(values, "max-claims");
  return { isolation, refillDelayMs, maxClaims };
}
