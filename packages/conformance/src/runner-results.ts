import { readFile, writeFile } from "node:fs/promises";

/** What a conformance runner of others said of a part of the service; `docs/compatibility.md` shows it. */
export interface RunnerResult {
  readonly runner: string;
  readonly version: string;
  /** What it ran against. */
  readonly subject: string;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** Cases that fail or are left out, and why. */
  readonly notes: readonly string[];
}

const FILE = new URL("../runner-results.json", import.meta.url);

/** Puts a result into `runner-results.json`, in the place of the one of the same runner and subject. */
export async function writeRunnerResult(result: RunnerResult): Promise<void> {
  const before = JSON.parse(await readFile(FILE, "utf8").catch(() => "[]")) as readonly RunnerResult[];
  const key = ({ runner, subject }: RunnerResult): string => `${runner}: ${subject}`;
  const all = [...before.filter((one) => key(one) !== key(result)), result];
  const sorted = all.toSorted((one, other) => (key(one) < key(other) ? -1 : 1));
  await writeFile(FILE, `${JSON.stringify(sorted, undefined, 2)}\n`);
}
