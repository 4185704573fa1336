/** What was looked at. */
export type CheckName =
  | "configuration"
  | "keys"
  | "nodes"
  | "token"
  | "addresses"
  | "mesh"
  | "clocks"
  | "pools"
  | "names"
  | "certificate"
  | "guest";

/**
 * One thing that was found. A `fault` keeps something from working, a `warning` will or may; `ok` says what was seen, and
 * `skipped` what could not be looked at and why. Texts name files, addresses and names, never a secret.
 */
export interface Finding {
  readonly check: CheckName;
  readonly level: "ok" | "warning" | "fault" | "skipped";
  readonly message: string;
  /** What to do. Present with every fault and warning. */
  readonly fix?: string | undefined;
}

/** Makers of the findings of one check. */
export interface Findings {
  readonly ok: (message: string) => Finding;
  readonly skipped: (message: string) => Finding;
  readonly warning: (message: string, fix: string) => Finding;
  readonly fault: (message: string, fix: string) => Finding;
}

/** Makers of the findings of one check. */
export function findingsOf(check: CheckName): Findings {
  return {
    ok: (message) => ({ check, level: "ok", message }),
    skipped: (message) => ({ check, level: "skipped", message }),
    warning: (message, fix) => ({ check, level: "warning", message, fix }),
    fault: (message, fix) => ({ check, level: "fault", message, fix }),
  };
}
