import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { DevNodeError } from "../errors.ts";
import type { HostView, TreeOptions } from "./guest-tree.ts";
import type { IdRange } from "./id-range.ts";

/** One copy of a tree. */
export interface CopyJob {
  readonly kind: "copy";
  readonly from: string;
  readonly to: string;
  /** Owners of the copy: the same, those of another guest, or without it this process. */
  readonly owners: "same" | { readonly from: IdRange | undefined; readonly to: IdRange } | undefined;
  /** Paths below the root that are left out. */
  readonly without?: ReadonlySet<string> | undefined;
}

/** One digest of a tree. */
export interface DigestJob {
  readonly kind: "digest";
  readonly tree: string;
  /** Ids that the tree's owners have on the host; without them owners do not count. */
  readonly owners: IdRange | undefined;
}

/** The making of a tree, or of what one that was copied lacks. */
export interface MakeJob {
  readonly kind: "make" | "complete";
  readonly tree: string;
  readonly view: HostView;
  readonly options: TreeOptions;
}

/** What the thread can be told to do. */
export type TreeJob = CopyJob | DigestJob | MakeJob;

/** A message to the thread; without a job it ends the one with this number. */
export interface TreeOrder {
  readonly id: number;
  readonly job?: TreeJob;
}

/** A message of the thread. */
export interface TreeAnswer {
  readonly id: number;
  readonly value?: string;
  readonly error?: { readonly message: string; readonly code: string | undefined };
}

/** How long a job may go on. */
export interface TreeCallOptions {
  readonly signal?: AbortSignal | undefined;
}

/** Work on guests' trees, done in a thread of its own. */
export interface Trees {
  /** Copies as {@link copyTree} does. @throws system errors, the signal's reason once the copy has stopped */
  copy(job: Omit<CopyJob, "kind">, options?: TreeCallOptions): Promise<void>;
  /** Digests as {@link digestTree} does. @throws system errors, the signal's reason */
  digest(job: Omit<DigestJob, "kind">, options?: TreeCallOptions): Promise<string>;
  /** Makes the tree of a new guest as {@link makeGuestTree} does. @throws system errors */
  make(job: Omit<MakeJob, "kind">): Promise<void>;
  /** Makes what a copied tree lacks as {@link makeMountPoints} does. @throws system errors */
  complete(job: Omit<MakeJob, "kind">): Promise<void>;
  /** Ends the thread, and what it still does. */
  close(): Promise<void>;
}

interface Pending {
  resolve(value: string): void;
  reject(error: Error): void;
}

/** The thread's program, from the package's own build and from its sources. */
const PROGRAMS = ["./tree-worker.js", "./tree-worker.ts"];

function findProgram(): URL {
  const found = PROGRAMS.map((path) => new URL(path, import.meta.url)).find((url) => existsSync(fileURLToPath(url)));
  if (found === undefined) {
    throw new DevNodeError("guest_start_failed", "dist/tree-worker.js is missing: build @org/devnode first");
  }
  return found;
}

/**
 * Makes the thread, which starts with its first job. It keeps the process alive only while it has any; one that fails,
 * as for want of memory, fails its jobs, and the next job starts another.
 */
export function createTrees(): Trees {
  const pending = new Map<number, Pending>();
  let worker: Worker | undefined;
  let closed = false;
  let last = 0;

  const fail = (failed: Worker, error: Error): void => {
    if (worker !== failed) {
      return;
    }
    worker = undefined;
    for (const job of pending.values()) {
      job.reject(error);
    }
    pending.clear();
  };
  const start = (): Worker => {
    // Arguments of the process may be meant for its own program only.
    const started = new Worker(findProgram(), { name: "trees", execArgv: [] });
    started.on("message", ({ id, value, error }: TreeAnswer) => {
      const job = pending.get(id);
      pending.delete(id);
      if (pending.size === 0) {
        started.unref();
      }
      if (error === undefined) {
        job?.resolve(value ?? "");
      } else {
        job?.reject(Object.assign(new Error(error.message), { code: error.code }));
      }
    });
    started.on("error", (error) => fail(started, error instanceof Error ? error : new Error(String(error))));
    started.on("exit", () => fail(started, new Error("the thread for guests' files ended")));
    return started;
  };
  const run = async (job: TreeJob, signal: AbortSignal | undefined): Promise<string> => {
    signal?.throwIfAborted();
    if (closed) {
      throw new DevNodeError("guest_start_failed", "the node is closing");
    }
    const thread = (worker ??= start());
    const id = (last += 1);
    const onAbort = (): void => thread.postMessage({ id } satisfies TreeOrder);
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    pending.set(id, { resolve, reject });
    thread.ref();
    thread.postMessage({ id, job } satisfies TreeOrder);
    signal?.addEventListener("abort", onAbort, { once: true });
    try {
      return await promise;
    } catch (error) {
      signal?.throwIfAborted();
      throw error;
    } finally {
      signal?.removeEventListener("abort", onAbort);
    }
  };

  return {
    copy: async (job, { signal } = {}) => void (await run({ ...job, kind: "copy" }, signal)),
    digest: (job, { signal } = {}) => run({ ...job, kind: "digest" }, signal),
    make: async (job) => void (await run({ ...job, kind: "make" }, undefined)),
    complete: async (job) => void (await run({ ...job, kind: "complete" }, undefined)),
    close: async () => {
      closed = true;
      await worker?.terminate();
    },
  };
}
