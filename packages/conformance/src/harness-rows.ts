import { type ResultCollector, rowLine } from "./results.ts";

/** A row that the harness itself runs. */
export interface HarnessRow {
  readonly id: string;
  readonly title: string;
  /** Passes unless it throws. A {@link SkipRow} is a skip. */
  readonly run: () => Promise<void>;
}

/** Thrown by a row that cannot run here; the message says why and what would help. */
export class SkipRow extends Error {
  override readonly name = "SkipRow";
}

/** Choices of {@link runHarnessRows}. */
export interface HarnessRowsOptions {
  readonly suite: string;
  /** Column of the table. */
  readonly client: string;
  readonly collector: ResultCollector;
  readonly onlyRow?: string | undefined;
  /** @default 120000 */
  readonly limitMs?: number;
  readonly onRow?: (line: string) => void;
}

/** Runs rows one after the other and collects their outcomes. */
export async function runHarnessRows(rows: readonly HarnessRow[], options: HarnessRowsOptions): Promise<void> {
  const { suite, client, collector, onlyRow } = options;
  const limitMs = options.limitMs ?? 120_000;
  for (const row of rows) {
    if (onlyRow !== undefined && onlyRow !== row.id) {
      continue;
    }
    const begun = performance.now();
    let status: "pass" | "fail" | "skip" = "pass";
    let detail = "";
    let timer: NodeJS.Timeout | undefined;
    try {
      const limit = new Promise<never>((_resolve, reject) => {
        timer = setTimeout(() => reject(new Error(`no end within ${limitMs} ms`)), limitMs);
      });
      await Promise.race([row.run(), limit]);
    } catch (error) {
      status = error instanceof SkipRow ? "skip" : "fail";
      detail = (error instanceof Error ? error.message : String(error)).slice(0, 1_500);
    } finally {
      clearTimeout(timer);
    }
    const ms = Math.round(performance.now() - begun);
    const judged = collector.add({ suite, client, row: row.id, title: row.title, status, detail, ms });
    options.onRow?.(rowLine(judged));
  }
}
