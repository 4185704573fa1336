import { parentPort } from "node:worker_threads";
import { makeGuestTree, makeMountPoints, ownerShift } from "./guest-tree.ts";
import { copyTree, type CopyTreeOptions } from "./tree-copy.ts";
import { digestTree } from "./tree-digest.ts";
import type { CopyJob, TreeAnswer, TreeJob, TreeOrder } from "./trees.ts";

// The thread in which guests' trees are read and written: a file system that is slow, or a folder with a million names,
// holds up nobody but the other trees.

const port = parentPort;
const running = new Map<number, AbortController>();

/** Resolves with the digest of a digest job, and with nothing after any other. */
async function carryOut(job: TreeJob, signal: AbortSignal): Promise<string> {
  if (job.kind === "digest") {
    return await digestTree(job.tree, { owners: job.owners, signal });
  }
  if (job.kind === "copy") {
    await copyTree(job.from, job.to, { owner: ownerOf(job), without: job.without, signal });
  } else if (job.kind === "make") {
    await makeGuestTree(job.tree, job.view, job.options);
  } else {
    makeMountPoints(job.tree, job.view, job.options);
  }
  return "";
}

function ownerOf({ owners }: CopyJob): CopyTreeOptions["owner"] {
  if (owners === undefined) {
    return undefined;
  }
  return owners === "same" ? (_path, uid, gid) => [uid, gid] : ownerShift(owners.from, owners.to);
}

/** What the readers of a tree wait for. */
const turns = new Map<string, Promise<unknown>>();

/**
 * Without the host's root, reading what its mode forbids changes that mode for a moment, and another reader of the same
 * tree would take it for the file's own: they read one after another.
 */
function inTurn(tree: string, step: () => Promise<string>): Promise<string> {
  if (process.geteuid?.() === 0) {
    return step();
  }
  const turn = (turns.get(tree) ?? Promise.resolve()).then(step, step).finally(() => {
    if (turns.get(tree) === turn) {
      turns.delete(tree);
    }
  });
  turns.set(tree, turn);
  return turn;
}

async function answer(id: number, job: TreeJob): Promise<TreeAnswer> {
  const stop = new AbortController();
  running.set(id, stop);
  const step = (): Promise<string> => carryOut(job, stop.signal);
  try {
    return { id, value: await inTurn(job.kind === "copy" ? job.from : job.tree, step) };
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException;
    return { id, error: { message, code } };
  } finally {
    running.delete(id);
  }
}

port?.on("message", ({ id, job }: TreeOrder) => {
  if (job === undefined) {
    running.get(id)?.abort();
    return;
  }
  void answer(id, job).then((reply) => port.postMessage(reply));
});
