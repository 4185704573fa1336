import { runHarnessRows } from "./harness-rows.ts";
import type { Lane } from "./lanes.ts";
import type { RunContext } from "./run-context.ts";
import { runnerRows } from "../suites/protocols/runner-rows.ts";

/** Runners of others take a minute or two. */
const RUNNER_LIMIT_MS = 400_000;

/** The lanes of the suite `protocols`: what others made to judge the protocols that we speak. */
export function protocolLanes(context: RunContext): readonly Lane[] {
  const { set, programs, args, collector, say } = context;
  return [
    {
      name: "protocols",
      run: async () => {
        const held = runnerRows({ set, programs, writeResults: args.writeResults });
        const options = { suite: "protocols", client: "harness", collector, onlyRow: args.row, onRow: say };
        try {
          await runHarnessRows(held.rows, { ...options, limitMs: RUNNER_LIMIT_MS });
        } finally {
          await held.close();
        }
      },
    },
  ];
}
