import { runHarnessRows } from "./harness-rows.ts";
import type { Lane } from "./lanes.ts";
import type { RunContext } from "./run-context.ts";
import { buildFaultLanes } from "../suites/control/build-faults.ts";
import type { ControlContext, HeldRows } from "../suites/control/context.ts";
import { laneRows } from "../suites/control/lanes.ts";
import { replicaLanes } from "../suites/control/replicas.ts";
import { reportLanes } from "../suites/control/reports.ts";
import { secretRows } from "../suites/control/secrets.ts";
import { startRows } from "../suites/control/start-rows.ts";

/** Rows that wait for a lease, or start many fronts, on a machine that has more to do. */
const LIMIT_MS = 300_000;

/** Suites about the control plane's faults and replicas, each in lanes with nodes of their own. `quick` has none of them. */
export const CONTROL_SUITES: Readonly<Record<string, (context: ControlContext) => readonly HeldRows[]>> = {
  "build-faults": buildFaultLanes,
  replicas: replicaLanes,
  lanes: (context) => [laneRows(context), startRows(context)],
  reports: (context) => [...reportLanes(context), secretRows(context)],
};

/** The lanes of the suites that are wanted. */
export function controlLanes(context: RunContext, wants: (suite: string) => boolean): readonly Lane[] {
  const { set, programs, args, collector, say } = context;
  return Object.entries(CONTROL_SUITES)
    .filter(([suite]) => wants(suite))
    .map(([suite, lanesOf]) => ({
      name: suite,
      run: async () => {
        const ends = await Promise.allSettled(
          lanesOf({ set, programs, isolation: args.isolation }).map(async ({ rows, close }) => {
            try {
              const options = { suite, client: "harness", collector, onlyRow: args.row, onRow: say };
              await runHarnessRows(rows, { ...options, limitMs: LIMIT_MS });
            } finally {
              await close();
            }
          }),
        );
        const broken = ends.find((end) => end.status === "rejected");
        if (broken !== undefined) {
          throw broken.reason;
        }
      },
    }));
}
