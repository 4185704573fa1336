import type { RowResult } from "./results.ts";

const MARKS: Readonly<Record<RowResult["status"], string>> = { pass: "ok", fail: "FAIL", skip: "skip", limit: "limit" };

/**
 * Prints outcomes as a table with one line per row id and one column per client. Rows and columns keep the order in
 * which they first came; a client that did not run a row has an empty cell.
 */
export function resultTable(results: readonly RowResult[]): string {
  const clients = [...new Set(results.map((result) => result.client))];
  const rows = new Map<string, { suite: string; title: string; cells: Map<string, string> }>();
  for (const result of results) {
    const key = `${result.suite} ${result.row}`;
    const line = rows.get(key) ?? { suite: result.suite, title: result.title, cells: new Map<string, string>() };
    line.cells.set(result.client, MARKS[result.status]);
    rows.set(key, line);
  }
  const header = ["row", ...clients, "what"];
  const body = [...rows].map(([key, line]) => [
    key,
    ...clients.map((client) => line.cells.get(client) ?? ""),
    line.title,
  ]);
  return alignColumns([header, ...body]);
}

/** Pads every column but the last to its widest cell. Trailing blanks are dropped. */
export function alignColumns(lines: readonly (readonly string[])[]): string {
  const widths: number[] = [];
  for (const line of lines) {
    for (const [index, cell] of line.entries()) {
      widths[index] = Math.max(widths[index] ?? 0, cell.length);
    }
  }
  return lines
    .map((line) =>
      line
        .map((cell, index) => cell.padEnd(widths[index] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}
