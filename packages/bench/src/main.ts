import { readFile, writeFile } from "node:fs/promises";
import { readArgs, USAGE } from "./args.ts";
import type { Args } from "./args.ts";
import { met, toJsonLine } from "./figures.ts";
import type { Figure } from "./figures.ts";
import { withResults } from "./page.ts";
import { isBusy, readResults, thisMachine, writeResults } from "./results.ts";
import type { Results } from "./results.ts";
import type { Bench, Suite } from "./suite.ts";
import { SUITES } from "./suites.ts";
import { textTable } from "./table.ts";

const PAGE = new URL("../../../docs/performance.md", import.meta.url);

const say = (text: string): void => void process.stdout.write(`${text}\n`);

function benchOf(quick: boolean, report: Bench["report"]): Bench {
  return quick
    ? {
        quick,
        effort: { rounds: 3, minRounds: 1, warmUp: 1, batchMicros: 500, budgetMicros: 100_000 },
        fleets: [{ nodes: 3, perNode: 20 }],
        report,
      }
    : {
        quick,
        effort: { rounds: 15, minRounds: 3, warmUp: 1, batchMicros: 20_000, budgetMicros: 2_500_000 },
        fleets: [
          { nodes: 26, perNode: 100 },
          { nodes: 26, perNode: 2000 },
          { nodes: 200, perNode: 2000 },
        ],
        report,
      };
}

async function measure(suites: readonly Suite[], quick: boolean): Promise<Results> {
  const machine = thisMachine();
  if (isBusy(machine) && !quick) {
    process.stderr.write(`the machine is busy (load ${machine.load}): times over sockets will say little\n`);
  }
  const figures: Figure[] = [];
  const bench = benchOf(quick, (measured) => {
    // A quick run measures too little to judge anything by.
    const figure = quick ? { ...measured, bar: undefined } : measured;
    figures.push(figure);
    say(toJsonLine(figure));
  });
  for (const suite of suites) {
    const began = performance.now();
    await suite.run(bench);
    process.stderr.write(`${suite.name} took ${Math.round((performance.now() - began) / 1000)} s\n`);
  }
  return { machine, figures };
}

function suitesOf({ only, quick }: Args): readonly Suite[] {
  const wanted = SUITES.filter(({ name, realGuests = false }) =>
    only === undefined ? !(quick && realGuests) : name === only,
  );
  if (wanted.length === 0) {
    throw new Error(`no suite ${only}: want one of ${SUITES.map(({ name }) => name).join(", ")}`);
  }
  return wanted;
}

async function main(): Promise<number> {
  let args: Args;
  let suites: readonly Suite[];
  try {
    args = readArgs(process.argv.slice(2));
    suites = suitesOf(args);
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`);
    return 2;
  }
  if (args.help) {
    process.stdout.write(USAGE);
    return 0;
  }
  if (args.list) {
    say(SUITES.map(({ name, what }) => `${name.padEnd(18)} ${what}`).join("\n"));
    return 0;
  }
  const results =
    args.from === undefined ? await measure(suites, args.quick) : readResults(await readFile(args.from, "utf8"));
  if (args.json !== undefined) {
    await writeFile(args.json, writeResults(results));
  }
  if (args.writeDocs) {
    await writeFile(PAGE, withResults(await readFile(PAGE, "utf8"), results));
  }
  const judged = results.figures.filter((figure) => met(figure) !== undefined);
  const missed = judged.filter((figure) => met(figure) === false);
  say(`\n${textTable(results.figures)}`);
  say(`\n${results.figures.length} figures, ${judged.length} with a bar, ${missed.length} of them missed`);
  return args.strict && missed.length > 0 ? 1 : 0;
}

process.exitCode = await main();
