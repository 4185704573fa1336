import { runHarnessRows } from "./harness-rows.ts";
import type { Lane } from "./lanes.ts";
import type { RunContext } from "./run.ts";
import { buildFaultLanes } from "../suites/control/build-faults.ts";
import type { ControlContext, HeldRows } from "../suites/control/context.ts";

/** Suites about the control plane's faults and replicas, each in lanes with nodes of their own. `quick` has none of them. */
export const CONTROL_SUITES: Readonly<Record<string, (context: ControlContext) => readonly HeldRows[]>> = {
  "build-faults": buildFaultLanes,
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
              await runHarnessRows(rows, { ...options, limitMs: 180_000 });
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
