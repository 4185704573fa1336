import type { Logger } from "@org/scale";

/** What every command runs in. */
export interface Surroundings {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborts at the first SIGINT or SIGTERM. */
  readonly signal: AbortSignal;
  readonly logger: Logger;
}
