import { runHarnessRows } from "./harness-rows.ts";
import { pythonEnv } from "./python-env.ts";
import type { RunContext } from "./run-context.ts";
import { startDev } from "./rig.ts";
import { fuzzRows } from "../suites/fuzz.ts";

/** Ten thousand requests take minutes, and much longer on a machine that is busy. */
const LIMIT_MS = 7_200_000;

/** Runs schemathesis over the service, with what its own document says. */
export async function runFuzzSuite(context: RunContext): Promise<void> {
  const { set, programs, args, collector, say } = context;
  const env = await pythonEnv(set, "schemathesis");
  say(`schemathesis: ${env.kind === "ready" ? env.version : env.reason}`);
  await using rig = await startDev(set, programs, {
    mode: "secret",
    isolation: args.isolation,
    warm: 8,
    warmEgress: 2,
  });
  await runHarnessRows(fuzzRows({ set, env, rig: rig.facts, front: rig.front, say }), {
    suite: "fuzz",
    client: "harness",
    collector,
    onlyRow: args.row,
    limitMs: LIMIT_MS,
    onRow: say,
  });
}
