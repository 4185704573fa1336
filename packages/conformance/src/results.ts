/** What became of one row with one client. */
export type RowStatus = "pass" | "fail" | "skip";

/** A row that the product does not pass yet, and says so in its documentation. */
export interface ProductLimit {
  readonly suite: string;
  readonly row: string;
  /** What its failure must say: a failure for another reason counts. */
  readonly failure: string;
  /** Why, in words for the documentation. */
  readonly reason: string;
}

/** The outcome of one row. */
export interface RowResult {
  readonly suite: string;
  /** Client, or part of the rig, that ran the row: a column of the table. */
  readonly client: string;
  /** Row id, such as `B7`. */
  readonly row: string;
  readonly title: string;
  /** `limit`: it failed in the way the list of product limits says. */
  readonly status: RowStatus | "limit";
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
  /** Rows that failed as the list of product limits says. */
  readonly limits: number;
}

/** Gathers the outcomes of a run and says how it ended. */
export interface ResultCollector {
  /** Answers the outcome as it counts: a failure may be a known limit, a pass may contradict the list of them. */
  add(result: RowResult): RowResult;
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
  /** Rows expected to fail. One that passes is a failure: the list is out of date. */
  readonly limits?: readonly ProductLimit[];
}

/** Creates an empty collector. */
export function createResultCollector(options: ResultCollectorOptions = {}): ResultCollector {
  const informational = new Set(options.informational ?? []);
  const skipFails = options.skipFails ?? false;
  const limits = new Map((options.limits ?? []).map((limit) => [`${limit.suite} ${limit.row}`, limit]));
  const results: RowResult[] = [];

  const counts = (result: RowResult): keyof Totals => {
    if (result.status === "pass") {
      return "passed";
    }
    if (result.status === "limit") {
      return "limits";
    }
    if (informational.has(result.client)) {
      return result.status === "fail" ? "known" : "skipped";
    }
    return result.status === "fail" || skipFails ? "failed" : "skipped";
  };

  const totals = (): Totals => {
    const sum = { passed: 0, failed: 0, skipped: 0, known: 0, limits: 0 };
    for (const result of results) {
      sum[counts(result)] += 1;
    }
    return sum;
  };

  return {
    results,
    totals,
    add: (result) => {
      const judged = judge(result, limits.get(`${result.suite} ${result.row}`));
      results.push(judged);
      return judged;
    },
    failures: () => results.filter((result) => counts(result) === "failed"),
    closingLine: () => {
      const { passed, failed, skipped } = totals();
      return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
    },
  };
}

function judge(result: RowResult, limit: ProductLimit | undefined): RowResult {
  if (limit === undefined) {
    return result;
  }
  if (result.status === "pass") {
    return { ...result, status: "fail", detail: "it passes, but known-limits.json lists it: take it off the list" };
  }
  if (result.status === "fail" && new RegExp(limit.failure).test(result.detail)) {
    return { ...result, status: "limit" };
  }
  return result;
}

/** One outcome as the line that is printed when it comes. */
export function rowLine(result: RowResult): string {
  const { client, suite, row, status, ms, detail } = result;
  return `${client} ${suite} ${row} ${status} ${ms} ms${detail === "" ? "" : `: ${detail}`}`;
}
