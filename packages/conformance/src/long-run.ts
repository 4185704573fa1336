import { longRows } from "../suites/long.ts";
import { runHarnessRows } from "./harness-rows.ts";
import { startDev } from "./rig.ts";
import type { RunContext } from "./run-context.ts";

const LIMIT_MS = 900_000;

/** Runs the rows that take minutes because what they are about does. */
export async function runLongSuite(context: RunContext): Promise<void> {
  const { set, programs, args, collector, say } = context;
  await using rig = await startDev(set, programs, {
    mode: "secret",
    isolation: args.isolation,
    warm: 1,
    warmEgress: 0,
  });
  const options = { suite: "long", client: "harness", collector, onlyRow: args.row, limitMs: LIMIT_MS, onRow: say };
  await runHarnessRows(longRows(rig.facts), options);
}
