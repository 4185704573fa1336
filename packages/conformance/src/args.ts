import { parseArgs } from "node:util";

import { CLIENTS, type ClientFacts } from "./client-facts.ts";
import { NODE_OPTIONS, NODE_USAGE, type NodeArgs, readNodeArgs } from "./node-args.ts";

/** What one run of the suites does. */
export interface Args {
  readonly suite: string;
  readonly client: ClientFacts["id"] | undefined;
  readonly row: string | undefined;
  readonly list: boolean;
  readonly isolation: string | undefined;
  readonly help: boolean;
  /** Whether the outcomes go into `results.json`. */
  readonly writeResults: boolean;
  /** Where `--suite node` goes; absent: to nodes of its own. */
  readonly node?: NodeArgs | undefined;
}

const CLIENT_NAMES = CLIENTS.map((client) => client.id);

/** Shown for `--help`, and after an argument that is not understood. */
export const USAGE: string = `usage: node src/main.ts [--suite NAME] [--client NAME] [--row ID] [--isolation MODE] [--list] [--write-results]

  --suite      quick (default), full, or one suite of --list
  --client     only this client: ${CLIENT_NAMES.join(", ")}
  --row        only this row, with the rows of its suite that come before it
  --isolation  how guests are kept apart: auto (default), bubblewrap, unshare, process
  --list       print suites and rows, run nothing
  --write-results  put the outcomes into results.json, which docs/compatibility.md shows
${NODE_USAGE}`;

/** Reads the command line. Throws an error with a message for the user. */
export function readArgs(argv: readonly string[]): Args {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      suite: { type: "string", default: "quick" },
      client: { type: "string" },
      row: { type: "string" },
      list: { type: "boolean", default: false },
      isolation: { type: "string" },
      help: { type: "boolean", default: false },
      "write-results": { type: "boolean", default: false },
      ...NODE_OPTIONS,
    },
  });
  const client = CLIENT_NAMES.find((name) => name === values.client);
  if (values.client !== undefined && client === undefined) {
    throw new Error(`unknown client ${values.client}: want ${CLIENT_NAMES.join(", ")}`);
  }
  const node = readNodeArgs(values.suite, values);
  return {
    suite: values.suite,
    client,
    row: values.row,
    list: values.list,
    isolation: values.isolation,
    help: values.help,
    writeResults: values["write-results"],
    ...(node === undefined ? {} : { node }),
  };
}
