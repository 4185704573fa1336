import { parseArgs } from "node:util";

/** What one run measures and where its figures go. */
export interface Args {
  /** Only figures of suites, or with names, that start with this. */
  readonly only: string | undefined;
  /** File for the figures, one JSON line each. */
  readonly json: string | undefined;
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
export const USAGE: string = `usage: pnpm bench [--only NAME] [--json FILE] [--quick] [--strict] [--write-docs] [--list]

  --only NAME    one suite of --list
  --json FILE    write the figures to FILE as well, one JSON object a line
  --quick        small fleets and few rounds, under half a minute: shows that everything runs, not how fast it is
  --strict       exit 1 when a figure misses its bar
  --write-docs   put the table into docs/performance.md; with --json FILE and --only none, from that file
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
      quick: { type: "boolean", default: false },
      strict: { type: "boolean", default: false },
      "write-docs": { type: "boolean", default: false },
      list: { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  return {
    only: values.only,
    json: values.json,
    quick: values.quick,
    strict: values.strict,
    writeDocs: values["write-docs"],
    list: values.list,
    help: values.help,
  };
}
