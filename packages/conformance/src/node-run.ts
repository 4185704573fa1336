import { nodeSuite } from "../suites/node.ts";
import { runHarnessRows } from "./harness-rows.ts";
import { loadNodeTarget } from "./node-args.ts";
import { startNodeRig } from "./node-rig.ts";
import type { RunContext } from "./run.ts";

/** A real node may boot a guest for a row. */
const ROW_LIMIT_MS = 300_000;

/** Runs the checklist of the node API against the node that the arguments name, or against nodes of its own. */
export async function runNodeSuite(context: RunContext): Promise<void> {
  const { args, collector, say, set, programs } = context;
  const rig = args.node === undefined ? await startNodeRig(set, programs, args.isolation) : undefined;
  try {
    const options = rig === undefined ? args.node && (await loadNodeTarget(args.node)) : rig.target;
    if (options === undefined) {
      return;
    }
    const suite = await nodeSuite(options);
    const close = (): Promise<void> => suite.close();
    context.undo.add(close);
    try {
      await runHarnessRows(suite.rows, {
        suite: "node",
        client: "node",
        collector,
        onlyRow: args.row,
        limitMs: ROW_LIMIT_MS,
        onRow: say,
      });
    } finally {
      await close();
      context.undo.delete(close);
    }
  } finally {
    await rig?.[Symbol.asyncDispose]();
  }
}
