import assert from "node:assert/strict";

import type { HarnessRow } from "../src/harness-rows.ts";
import { type Bench, createBench } from "../src/node-bench.ts";
import { findTarget, type NodeTarget, type NodeTargetOptions } from "../src/node-target.ts";
import { captureRows } from "./node/capture-rows.ts";
import { claimRows } from "./node/claim-rows.ts";
import { type Ground, indexOf, type RowGroup } from "./node/kit.ts";
import { meshClaimRows } from "./node/mesh-rows.ts";
import { pauseRows } from "./node/pause-rows.ts";
import { readRows } from "./node/read-rows.ts";
import { relayRows } from "./node/relay-rows.ts";

/** The checklist of node API §13.3 against one node. */
export interface NodeSuite {
  readonly rows: readonly HarnessRow[];
  /** Undoes what the rows did, whether they ended or are still under way. */
  close(): Promise<void>;
}

/** Looks at the node and makes its rows. Throws an error with what to change when they cannot run. */
export async function nodeSuite(options: NodeTargetOptions): Promise<NodeSuite> {
  const target = await findTarget(options);
  const bench = createBench();
  return {
    rows: nodeRows({ bench, target }),
    close: async () => {
      await bench.abandon();
      await target[Symbol.asyncDispose]();
    },
  };
}

/** The rows over a target and the bench that undoes what they do. */
export function nodeRows(ground: Ground): readonly HarnessRow[] {
  const groups: readonly RowGroup[] = [
    ...claimRows(ground),
    ...readRows(ground),
    ...pauseRows(ground),
    ...relayRows(ground),
    ...captureRows(ground),
    ...meshClaimRows(ground),
  ];
  return [...inGroups(ground.bench, groups), nothingLeft(ground.bench, ground.target)];
}

/** Undoes what a group did before the next one begins. */
function inGroups(bench: Bench, groups: readonly RowGroup[]): HarnessRow[] {
  let current: RowGroup | undefined;
  return groups.flatMap((group) =>
    group.map((row) => ({
      ...row,
      run: async () => {
        if (current !== group) {
          await bench.cleanUp();
          current = group;
        }
        await row.run();
      },
    })),
  );
}

function nothingLeft(bench: Bench, target: NodeTarget): HarnessRow {
  return {
    id: "N0",
    title: "the run left nothing: no sandbox, no template, no drain, and the pools as they were",
    run: async () => {
      await bench.cleanUp();
      assert.deepEqual(bench.leftovers, []);
      const nodes = [target.node, ...target.peers.map((peer) => peer.node)];
      for (const node of nodes) {
        const info = await bench.info(node);
        assert.ok(!("draining" in info), `${node.address} is drained`);
        const { rows } = await indexOf(bench, node);
        assert.deepEqual(
          rows.filter((row) => row.claim_ref?.startsWith(bench.label)),
          [],
          node.address,
        );
        const templates = (info.templates ?? []).map(({ key }) => key.template);
        assert.deepEqual(
          templates.filter((name) => name.startsWith(bench.label)),
          [],
          node.address,
        );
      }
    },
  };
}
