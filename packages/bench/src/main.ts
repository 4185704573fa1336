import { readArgs, USAGE } from "./args.ts";
import type { Args } from "./args.ts";
import { met, toJsonLine } from "./figures.ts";
import type { Figure } from "./figures.ts";
import type { Bench } from "./suite.ts";
import { SUITES } from "./suites.ts";
import { textTable } from "./table.ts";
import { writeFile } from "node:fs/promises";

const say = (text: string): void => void process.stdout.write(`${text}\n`);

function benchOf(args: Args, report: (figure: Figure) => void): Bench {
  return args.quick
    ? {
        quick: true,
        effort: { rounds: 3, minRounds: 1, warmUp: 1, batchMicros: 500, budgetMicros: 100_000 },
        fleets: [{ nodes: 3, perNode: 20 }],
        report,
      }
    : {
        quick: false,
        effort: { rounds: 15, minRounds: 3, warmUp: 1, batchMicros: 20_000, budgetMicros: 2_000_000 },
        fleets: [
          { nodes: 26, perNode: 100 },
          { nodes: 26, perNode: 2000 },
          { nodes: 200, perNode: 2000 },
        ],
        report,
      };
}

async function main(): Promise<number> {
  let args: Args;
  try {
    args = readArgs(process.argv.slice(2));
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`);
    return 2;
  }
  if (args.help) {
    process.stdout.write(USAGE);
    return 0;
  }
  if (args.list) {
    say(SUITES.map(({ name, what }) => `${name.padEnd(8)} ${what}`).join("\n"));
    return 0;
  }
  const { only } = args;
  const wanted = SUITES.filter(({ name }) => only === undefined || name === only);
  if (wanted.length === 0) {
    process.stderr.write(`no suite ${only}: want one of ${SUITES.map(({ name }) => name).join(", ")}\n`);
    return 2;
  }
  const figures: Figure[] = [];
  const bench = benchOf(args, (figure) => {
    figures.push(figure);
    say(toJsonLine(figure));
  });
  for (const suite of wanted) {
    await suite.run(bench);
  }
  if (args.json !== undefined) {
    await writeFile(args.json, `${figures.map(toJsonLine).join("\n")}\n`);
  }
  say(`\n${textTable(figures)}`);
  const judged = figures.filter((figure) => met(figure) !== undefined);
  const missed = judged.filter((figure) => met(figure) === false);
  say(`\n${figures.length} figures, ${judged.length} with a bar, ${missed.length} of them missed`);
  return args.strict && missed.length > 0 ? 1 : 0;
}

process.exitCode = await main();
