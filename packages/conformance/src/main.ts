import { readArgs, USAGE } from "./args.ts";
import { listedRows } from "./harness-catalogue.ts";
import { compareWithKnownLimits, limitsFor, readKnownLimits } from "./known-limits.ts";
import { ProcessSet } from "./processes.ts";
import { findPrograms } from "./programs.ts";
import { createResultCollector } from "./results.ts";
import { mergeResults, readResults, writeResults } from "./results-file.ts";
import { listing, run } from "./run.ts";
import { resultTable } from "./table.ts";

const say = (line: string): void => void process.stdout.write(`${line}\n`);

async function main(): Promise<number> {
  let args;
  try {
    args = readArgs(process.argv.slice(2));
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`);
    return 2;
  }
  if (args.help || args.list) {
    process.stdout.write(args.help ? USAGE : listing());
    return 0;
  }
  // A node somewhere else needs no program of ours.
  const programs = findPrograms({ lazily: args.node !== undefined });
  const known = await readKnownLimits();
  const collector = createResultCollector({
    limits: limitsFor(known, process.getuid?.()),
    informational: ["secret", "seed", "by-url", "by-host"].map((way) => `py-newest ${way}`),
    skipFails: process.env["CI"] === "true",
  });
  const begun = performance.now();
  const versions = new Map<string, string>();
  let kept = false;
  // Once: rows that an interrupt ends have not failed.
  const keepResults = async (): Promise<void> => {
    if (args.writeResults && args.node === undefined && !kept) {
      kept = true;
      const outcome = { results: collector.results, versions, limits: known };
      await writeResults(mergeResults(await readResults(), outcome, listedRows()));
      say(
        "\nresults.json holds these outcomes now: node --conditions=@org/source scripts/compatibility.ts --write shows them in docs/",
      );
    }
  };
  await using set = new ProcessSet();
  const undo = new Set<() => Promise<void>>();
  // Without this a Ctrl-C would leave nodes and their guests behind, and what was made at nodes of others.
  for (const [signal, code] of [
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const) {
    process.once(signal, () => {
      void Promise.allSettled([keepResults(), ...[...undo].map((undone) => undone())])
        .then(() => set[Symbol.asyncDispose]())
        .finally(() => process.exit(code));
    });
  }
  process.once("exit", () => set.killAllNow());

  let broke: Error | undefined;
  try {
    await run({ set, programs, args, collector, say, undo, versions });
  } catch (error) {
    broke = error instanceof Error ? error : new Error("something that is not an error was thrown", { cause: error });
  }
  say("");
  say(resultTable(collector.results));
  for (const failure of collector.failures()) {
    say(
      `\n${failure.suite} ${failure.row} (${failure.client}) ${failure.title}\n  ${failure.detail.replaceAll("\n", "\n  ")}`,
    );
  }
  const newest = collector.results.filter((result) => result.client.startsWith("py-newest"));
  const notes = newest.length === 0 ? [] : compareWithKnownLimits(known.newestPython, newest);
  if (notes.length > 0) {
    say(`\nnewest Python client, not counted (the list is of ${known.newestPython.version}):`);
    say(notes.map((note) => `  ${note}`).join("\n"));
  }
  if (broke !== undefined) {
    say(`\nthe run broke off: ${broke.message}`);
  }
  await keepResults();
  say(`\n${Math.round((performance.now() - begun) / 1_000)} s`);
  const { passed, failed, limits } = collector.totals();
  if (limits > 0) {
    say(`${limits} rows fail as known-limits.json says`);
  }
  say(collector.closingLine());
  return broke === undefined && failed === 0 && passed > 0 ? 0 : 1;
}

process.exitCode = await main();
