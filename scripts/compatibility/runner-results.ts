import { readFile } from "node:fs/promises";

/** What a conformance runner of others said of a part of the service. */
export interface RunnerResult {
  /** Name of the runner, and its version. */
  readonly runner: string;
  readonly version: string;
  /** What it ran against. */
  readonly subject: string;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** Cases that fail or are skipped, and why. */
  readonly notes: readonly string[];
}

/** Reads packages/conformance/runner-results.json; none when no runner has written it. */
export async function readRunnerResults(): Promise<readonly RunnerResult[]> {
  const file = new URL("../../packages/conformance/runner-results.json", import.meta.url);
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") {
      return "[]";
    }
    throw error;
  });
  return JSON.parse(text) as readonly RunnerResult[];
}
