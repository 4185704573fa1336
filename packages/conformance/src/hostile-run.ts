import { runHarnessRows } from "./harness-rows.ts";
import type { RunContext } from "./run-context.ts";
import { type HostileLane, hostileLanes } from "../suites/hostile.ts";

/** Rows that wait for real timers or repeat something ten thousand times take minutes. */
const LIMIT_MS = 600_000;

/** Runs the suite in which clients, guests and nodes mean harm; `quick` picks its short rows. */
export async function runHostileSuite(context: RunContext): Promise<void> {
  const { args, set, programs, collector, say } = context;
  const brief = args.suite === "quick";
  const { busy, waiting } = hostileLanes({ set, programs, isolation: args.isolation, brief });
  const run = async (lane: HostileLane): Promise<void> => {
    try {
      await runHarnessRows(
        lane.rows.filter((row) => row.quick || !brief),
        { suite: "hostile", client: "harness", collector, onlyRow: args.row, limitMs: LIMIT_MS, onRow: say },
      );
    } finally {
      await lane.close();
    }
  };
  const inTurn = async (): Promise<void> => {
    for (const lane of busy) {
      await run(lane);
    }
  };
  await Promise.all([inTurn(), ...waiting.map(run)]);
}
