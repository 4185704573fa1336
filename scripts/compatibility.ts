/**
 * Makes docs/compatibility.md out of what the service answers, of the catalogue of conformance rows and of
 * packages/conformance/results.json. Without `--write` it only tells whether the page is up to date.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text as readText } from "node:stream/consumers";

import { listedRows } from "../packages/conformance/src/harness-catalogue.ts";
import { readKnownLimits } from "../packages/conformance/src/known-limits.ts";
import { problemsOf, readResults } from "../packages/conformance/src/results-file.ts";
import { startFleet } from "./compatibility/fleet.ts";
import { compatibilityPage } from "./compatibility/page.ts";
import { readRunnerResults } from "./compatibility/runner-results.ts";

const root = new URL("..", import.meta.url).pathname;
const file = join(root, "docs/compatibility.md");

/** The text as the formatter leaves it. */
async function formatted(text: string): Promise<string> {
  const child = spawn(join(root, "node_modules/.bin/oxfmt"), ["--stdin-filepath", file], {
    cwd: root,
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = once(child, "close");
  child.stdin.end(text);
  const output = await readText(child.stdout);
  const [code] = (await ended) as [number | null];
  if (code !== 0) {
    throw new Error(`oxfmt ended with ${code}`);
  }
  return output;
}

async function main(): Promise<number> {
  const [results, limits, runners, listed] = [
    await readResults(),
    await readKnownLimits(),
    await readRunnerResults(),
    listedRows(),
  ];
  await using whole = await startFleet(true);
  await using plain = await startFleet(false);
  const page = await formatted(await compatibilityPage({ results, limits, listed, runners, whole, plain }));
  const problems = problemsOf(results, listed, limits);
  if (process.argv.includes("--write")) {
    await writeFile(file, page);
  } else if (page !== (await readFile(file, "utf8").catch(() => ""))) {
    problems.push("docs/compatibility.md is not what the code and results.json say");
  }
  for (const problem of problems.slice(0, 40)) {
    console.log(problem);
  }
  if (problems.length > 40) {
    console.log(`and ${problems.length - 40} more`);
  }
  return problems.length === 0 ? 0 : 1;
}

process.exitCode = await main();
