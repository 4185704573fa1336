import type { RowResult } from "./results.ts";

/** A row that a client is known to fail, and why. `docs/known-limits.md` shows the same list. */
export interface KnownLimit {
  readonly suite: string;
  readonly row: string;
  readonly reason: string;
}

/** The list of known failures of one client version. */
export interface KnownLimits {
  readonly client: string;
  readonly version: string;
  readonly rows: readonly KnownLimit[];
}

/** Where a run and the list disagree, one line each. */
export function compareWithKnownLimits(limits: KnownLimits, results: readonly RowResult[]): string[] {
  const listed = new Map(limits.rows.map((limit) => [`${limit.suite} ${limit.row}`, limit]));
  const failed = new Map<string, string>();
  const ran = new Set<string>();
  for (const result of results) {
    const key = `${result.suite} ${result.row}`;
    ran.add(key);
    if (result.status === "fail") {
      failed.set(key, result.detail);
    }
  }
  const lines: string[] = [];
  for (const [key, detail] of failed) {
    if (!listed.has(key)) {
      lines.push(`${key} fails but is not in the list: ${detail}`);
    }
  }
  for (const key of listed.keys()) {
    if (ran.has(key) && !failed.has(key)) {
      lines.push(`${key} is in the list but passes`);
    }
  }
  return lines;
}

/** The list as the table that `docs/known-limits.md` holds. */
export function knownLimitsTable(limits: KnownLimits): string {
  if (limits.rows.length === 0) {
    return `${limits.client} ${limits.version}: every row passes.\n`;
  }
  const lines = limits.rows.map((limit) => `| ${limit.row} | ${limit.suite} | ${limit.reason} |`);
  return [`${limits.client} ${limits.version}:`, "", "| row | suite | why |", "|---|---|---|", ...lines, ""].join("\n");
}
