import { nodeSuite } from "../suites/node.ts";
import type { Args } from "./args.ts";
import { runHarnessRows } from "./harness-rows.ts";
import { loadNodeTarget } from "./node-args.ts";
import { startNodeRig } from "./node-rig.ts";
import type { ProcessSet } from "./processes.ts";
import type { Programs } from "./programs.ts";
import type { ResultCollector } from "./results.ts";

/** The parts of a run that this suite works with. */
export interface NodeRunContext {
  readonly set: ProcessSet;
  readonly programs: Programs;
  readonly args: Args;
  readonly collector: ResultCollector;
  readonly say: (line: string) => void;
  readonly undo: Set<() => Promise<void>>;
}

/** A real node may boot a guest for a row. */
const ROW_LIMIT_MS = 300_000;

/** Runs the checklist of the node API against the node that the arguments name, or against nodes of its own. */
export async function runNodeSuite(context: NodeRunContext): Promise<void> {
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
