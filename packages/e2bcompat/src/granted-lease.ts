import type { SandboxRecord } from "@org/scale";

/** Leases that nodes grant (node API §5.1), in seconds. */
const MAX_SECONDS = 86_400;
const DEFAULT_SECONDS = 300;

/** How long a lease becomes that is asked for. Zero asks for the node's own default. */
export function grantedSeconds(asked: number): number {
  return asked <= 0 ? DEFAULT_SECONDS : Math.min(asked, MAX_SECONDS);
}

/**
 * What is left of a lease by the clock of the node that granted it, in seconds and not below 0; `undefined` when the
 * node did not say when it ends. `nowMs` stands in for the node's clock where that is unknown.
 */
export function secondsLeft({ deadline, answeredAt }: SandboxRecord, nowMs: number): number | undefined {
  const ends = deadline?.getTime() ?? Number.NaN;
  return Number.isNaN(ends) ? undefined : Math.max(0, (ends - (answeredAt?.getTime() ?? nowMs)) / 1000);
}
