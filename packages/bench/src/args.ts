import { parseArgs } from "node:util";

/** What one run measures and where its figures go. */
export interface Args {
  /** Only this suite. */
  readonly only: string | undefined;
  /** File for the figures, one JSON object a line. */
  readonly json: string | undefined;
  /** File of an earlier run to take figures from instead of measuring. */
  readonly from: string | undefined;
  /** Few rounds over small fleets: shows that everything runs, not how fast. */
  readonly quick: boolean;
  /** Exit 1 when a bar is missed. */
  readonly strict: boolean;
  /** Put the table into docs/performance.md. */
  readonly writeDocs: boolean;
  readonly list: boolean;
  readonly help: boolean;
}

/** Shown for `--help`, and after an argument that is not understood. */
export const USAGE: string = `usage: pnpm bench [--only SUITE] [--json FILE] [--from FILE] [--quick] [--strict] [--write-docs] [--list]

  --only SUITE   one suite of --list
  --json FILE    write the figures to FILE as well, one JSON object a line
  --from FILE    measure nothing: take the figures that --json wrote
  --quick        a small fleet and few rounds, under half a minute: shows that all but suites with real guests run, judges nothing
  --strict       exit 1 when a figure misses its bar
  --write-docs   put the table into docs/performance.md
  --list         print the suites, run nothing
`;

/** Reads the command line. @throws Error with a message for the user. */
export function readArgs(argv: readonly string[]): Args {
  const { values } = parseArgs({
    // A package manager may pass its own separator on.
    args: argv.filter((arg) => arg !== "--"),
    options: {
      only: { type: "string" },
      json: { type: "string" },
      from: { type: "string" },
      quick: { type: "boolean", default: false },
      strict: { type: "boolean", default: false },
      "write-docs": { type: "boolean", default: false },
      list: { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  const { only, json, from, quick, strict, list, help } = values;
  const writeDocs = values["write-docs"];
  if (from !== undefined && (only !== undefined || quick)) {
    throw new Error("--from measures nothing: it goes with neither --only nor --quick");
  }
  if (writeDocs && (only !== undefined || quick)) {
    throw new Error("--write-docs needs the figures of a whole run: it goes with neither --only nor --quick");
  }
  return { only, json, from, quick, strict, writeDocs, list, help };
}
