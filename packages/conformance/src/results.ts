/** What became of one row with one client. */
export type RowStatus = "pass" | "fail" | "skip";

/** The outcome of one row. */
export interface RowResult {
  readonly suite: string;
  /** Client, or part of the rig, that ran the row: a column of the table. */
  readonly client: string;
  /** Row id, such as `B7`. */
  readonly row: string;
  readonly title: string;
  readonly status: RowStatus;
  /** Why it failed or was skipped; empty for a pass. */
  readonly detail: string;
  /** Milliseconds the row took. */
  readonly ms: number;
}

/** How many rows came to which end. `known` rows failed with a client whose failures are listed, not counted. */
export interface Totals {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  readonly known: number;
}

/** Gathers the outcomes of a run and says how it ended. */
export interface ResultCollector {
  add(result: RowResult): void;
  readonly results: readonly RowResult[];
  totals(): Totals;
  /** The failures that count, in the order they came. */
  failures(): readonly RowResult[];
  /** The last line of the output: `N passed, M failed`, with `, K skipped` when rows were skipped. */
  closingLine(): string;
}

/** Choices of {@link createResultCollector}. */
export interface ResultCollectorOptions {
  /** Clients whose failures are shown and compared with a list instead of failing the run. */
  readonly informational?: readonly string[];
  /** A skipped row fails the run. @default false */
  readonly skipFails?: boolean;
}

/** Creates an empty collector. */
export function createResultCollector(options: ResultCollectorOptions = {}): ResultCollector {
  const informational = new Set(options.informational ?? []);
  const skipFails = options.skipFails ?? false;
  const results: RowResult[] = [];

  const counts = (result: RowResult): keyof Totals => {
    if (result.status === "pass") {
      return "passed";
    }
    if (informational.has(result.client)) {
      return result.status === "fail" ? "known" : "skipped";
    }
    return result.status === "fail" || skipFails ? "failed" : "skipped";
  };

  const totals = (): Totals => {
    const sum = { passed: 0, failed: 0, skipped: 0, known: 0 };
    for (const result of results) {
      sum[counts(result)] += 1;
    }
    return sum;
  };

  return {
    results,
    totals,
    add: (result) => void results.push(result),
    failures: () => results.filter((result) => counts(result) === "failed"),
    closingLine: () => {
      const { passed, failed, skipped } = totals();
      return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
    },
  };
}
