import { readFile, writeFile } from "node:fs/promises";

import { CLIENTS } from "./client-facts.ts";
import type { ListedRow } from "./harness-catalogue.ts";
import type { KnownLimits } from "./known-limits.ts";
import type { RowResult } from "./results.ts";

/** What became of one column of a suite. Ids are in the order of the catalogue, with a blank between them. */
export interface ColumnResults {
  readonly ok?: string;
  /** Rows that fail as `known-limits.json` says. */
  readonly limit?: string;
  /** Why, by row. */
  readonly skipped?: Readonly<Record<string, string>>;
  /** How, by row. A file that has one cannot be committed. */
  readonly failed?: Readonly<Record<string, string>>;
}

/** What `results.json` holds: the outcome of every row in the last run that was asked to write it. */
export interface ResultsFile {
  /** Version of each client, by its id. */
  readonly clients: Readonly<Record<string, string>>;
  /** Results by suite and column. */
  readonly suites: Readonly<Record<string, Readonly<Record<string, ColumnResults>>>>;
}

/** The outcome of one row in one column. */
export interface Outcome {
  readonly status: "ok" | "limit" | "skipped" | "failed";
  /** Why it was skipped or failed; else empty. */
  readonly detail: string;
}

const FILE = new URL("../results.json", import.meta.url);

/** Reads `results.json`; without one nothing ran yet. */
export async function readResults(): Promise<ResultsFile> {
  const text = await readFile(FILE, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") {
      return '{"clients":{},"suites":{}}';
    }
    throw error;
  });
  return JSON.parse(text) as ResultsFile;
}

/** Writes `results.json`. */
export async function writeResults(file: ResultsFile): Promise<void> {
  await writeFile(FILE, `${JSON.stringify(file, undefined, 2)}\n`);
}

/** Outcomes of one column of a suite, by row. */
export function outcomesOf(results: ColumnResults | undefined): Map<string, Outcome> {
  const found = new Map<string, Outcome>();
  for (const status of ["ok", "limit"] as const) {
    for (const row of results?.[status]?.split(" ") ?? []) {
      found.set(row, { status, detail: "" });
    }
  }
  for (const status of ["skipped", "failed"] as const) {
    for (const [row, detail] of Object.entries(results?.[status] ?? {})) {
      found.set(row, { status, detail });
    }
  }
  return found;
}

/** What a run adds to the file. */
export interface RunOutcome {
  readonly results: readonly RowResult[];
  /** Versions of the clients that ran. */
  readonly versions: ReadonlyMap<string, string>;
  readonly limits: KnownLimits;
}

/**
 * Puts the outcomes of a run over those of earlier runs. Rows and columns that are not listed any more are dropped, so
 * that the order of runs leaves no trace.
 */
export function mergeResults(file: ResultsFile, run: RunOutcome, listed: readonly ListedRow[]): ResultsFile {
  const latest = new Map(run.results.map((result) => [`${result.suite}/${result.client}/${result.row}`, result]));
  const suites: Record<string, Record<string, ColumnResults>> = {};
  for (const [suite, columns] of columnsOf(listed)) {
    for (const [column, rows] of columns) {
      const before = outcomesOf(file.suites[suite]?.[column]);
      const after = new Map<string, Outcome>();
      for (const row of rows) {
        const result = latest.get(`${suite}/${column}/${row}`);
        const outcome = result === undefined ? before.get(row) : outcomeOf(result, run.limits);
        if (outcome !== undefined) {
          after.set(row, outcome);
        }
      }
      if (after.size > 0) {
        (suites[suite] ??= {})[column] = packed(after);
      }
    }
  }
  const clients: Record<string, string> = {};
  for (const { id } of CLIENTS) {
    const version = run.versions.get(id) ?? file.clients[id];
    if (version !== undefined) {
      clients[id] = version;
    }
  }
  return { clients, suites };
}

/** Rows by column by suite, in the order of the catalogue. */
function columnsOf(listed: readonly ListedRow[]): Map<string, Map<string, string[]>> {
  const suites = new Map<string, Map<string, string[]>>();
  for (const { suite, id, columns } of listed) {
    const found = suites.get(suite) ?? new Map<string, string[]>();
    suites.set(suite, found);
    for (const column of columns) {
      found.set(column, [...(found.get(column) ?? []), id]);
    }
  }
  return suites;
}

/** The newest Python client's failures do not fail a run, so they are known limits only where they are listed. */
function outcomeOf({ suite, row, client, status, detail }: RowResult, limits: KnownLimits): Outcome {
  const knownOfNewest =
    client.startsWith("py-newest") &&
    limits.newestPython.rows.some((limit) => limit.suite === suite && limit.row === row);
  const known = { pass: "ok", limit: "limit", skip: "skipped", fail: knownOfNewest ? "limit" : "failed" } as const;
  const outcome = known[status];
  return { status: outcome, detail: outcome === "skipped" || outcome === "failed" ? detail.slice(0, 200) : "" };
}

function packed(outcomes: ReadonlyMap<string, Outcome>): ColumnResults {
  const ids = (wanted: Outcome["status"]): readonly string[] =>
    [...outcomes].filter(([, { status }]) => status === wanted).map(([row]) => row);
  const details = (wanted: Outcome["status"]): Record<string, string> =>
    Object.fromEntries(ids(wanted).map((row) => [row, outcomes.get(row)?.detail ?? ""]));
  const [ok, limit] = [ids("ok"), ids("limit")];
  const [skipped, failed] = [details("skipped"), details("failed")];
  return {
    ...(ok.length > 0 ? { ok: ok.join(" ") } : {}),
    ...(limit.length > 0 ? { limit: limit.join(" ") } : {}),
    ...(Object.keys(skipped).length > 0 ? { skipped } : {}),
    ...(Object.keys(failed).length > 0 ? { failed } : {}),
  };
}

/** Why the file cannot be shown as it is, one line each: rows without a result or without a row, failures, other versions. */
export function problemsOf(file: ResultsFile, listed: readonly ListedRow[], limits: KnownLimits): string[] {
  const problems: string[] = [];
  const wanted = columnsOf(listed);
  const known = new Set([...limits.product, ...limits.newestPython.rows].map((limit) => `${limit.suite} ${limit.row}`));
  for (const [suite, columns] of wanted) {
    for (const [column, rows] of columns) {
      const outcomes = outcomesOf(file.suites[suite]?.[column]);
      for (const row of rows) {
        const outcome = outcomes.get(row);
        if (outcome === undefined) {
          problems.push(`${suite} ${row} has no result of ${column}`);
        } else if (outcome.status === "failed") {
          problems.push(`${suite} ${row} failed with ${column}: ${outcome.detail}`);
        } else if (outcome.status === "limit" && !known.has(`${suite} ${row}`)) {
          problems.push(`${suite} ${row} is a limit of ${column} that known-limits.json does not list`);
        }
      }
    }
  }
  for (const [suite, columns] of Object.entries(file.suites)) {
    for (const [column, results] of Object.entries(columns)) {
      const rows = new Set(wanted.get(suite)?.get(column));
      for (const row of outcomesOf(results).keys()) {
        if (!rows.has(row)) {
          problems.push(`${suite} ${row} has a result of ${column}, and no such row is listed`);
        }
      }
    }
  }
  for (const { id, version } of CLIENTS) {
    const expected = version === "newest" ? limits.newestPython.version : version;
    if (file.clients[id] !== expected) {
      problems.push(`the results are of ${id} ${file.clients[id] ?? "(none)"}, the client is ${expected}`);
    }
  }
  return problems;
}
