import { parseArgs } from "node:util";

import type { ClientId } from "./catalogue.ts";
import { NODE_OPTIONS, NODE_USAGE, type NodeArgs, readNodeArgs } from "./node-args.ts";

/** What one run of the suites does. */
export interface Args {
  readonly suite: string;
  readonly client: ClientId | "cli-2.19" | undefined;
  readonly row: string | undefined;
  readonly list: boolean;
  readonly isolation: string | undefined;
  readonly help: boolean;
  /** Where `--suite node` goes; absent: to nodes of its own. */
  readonly node?: NodeArgs | undefined;
}

const CLIENTS = [
  "js-2.51",
  "js-2.50",
  "py-2.51",
  "py-2.51-async",
  "py-newest",
  "js-ci-2.8",
  "py-ci-2.11",
  "cli-2.19",
] as const;

/** Shown for `--help`, and after an argument that is not understood. */
export const USAGE: string = `usage: node src/main.ts [--suite NAME] [--client NAME] [--row ID] [--isolation MODE] [--list]

  --suite      quick (default), full, or one suite of --list
  --client     only this client: ${CLIENTS.join(", ")}
  --row        only this row, with the rows of its suite that come before it
  --isolation  how guests are kept apart: auto (default), bubblewrap, unshare, process
  --list       print suites and rows, run nothing
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
      ...NODE_OPTIONS,
    },
  });
  const client = CLIENTS.find((name) => name === values.client);
  if (values.client !== undefined && client === undefined) {
    throw new Error(`unknown client ${values.client}: want ${CLIENTS.join(", ")}`);
  }
  const node = readNodeArgs(values.suite, values);
  return {
    suite: values.suite,
    client,
    row: values.row,
    list: values.list,
    isolation: values.isolation,
    help: values.help,
    ...(node === undefined ? {} : { node }),
  };
}
