import { parentPort } from "node:worker_threads";
import { ownerShift } from "./guest-tree.ts";
import { copyTree } from "./tree-copy.ts";
import { digestTree } from "./tree-digest.ts";
import type { TreeAnswer, TreeJob, TreeOrder } from "./trees.ts";

// The thread in which guests' trees are read and written: a file system that is slow, or a folder with a million names,
// holds up nobody but the other trees.

const port = parentPort;
const running = new Map<number, AbortController>();

/** Answers with the digest of a digest job. */
async function carryOut(job: TreeJob, signal: AbortSignal): Promise<string> {
  if (job.kind === "digest") {
    return await digestTree(job.tree, { owners: job.owners, signal });
  }
  const { owners } = job;
  await copyTree(job.from, job.to, {
    owner:
      owners === undefined
        ? undefined
        : owners === "same"
          ? (_path, uid, gid) => [uid, gid]
          : ownerShift(owners.from, owners.to),
    without: job.without,
    signal,
  });
  return "";
}

async function answer(id: number, job: TreeJob): Promise<TreeAnswer> {
  const stop = new AbortController();
  running.set(id, stop);
  try {
    return { id, value: await carryOut(job, stop.signal) };
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
