import { writeSync } from "node:fs";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";

import { readRequests } from "./control.ts";
import { createEvaluator, type CellRequest } from "./evaluator.ts";

// The JavaScript kernel: one process that keeps the state of one context. Cells run in the main thread, as programs do; a
// second thread reads the requests, so that it can stop a cell that never lets go of the first.

/** What the cells' own code may throw after its cell, or forget to catch, ends nothing. */
function survive(): void {
  const report = (error: unknown): void => {
    const text = error instanceof Error ? (error.stack ?? String(error)) : `Uncaught ${String(error)}`;
    process.stderr.write(`${text}\n`);
  };
  process.on("uncaughtException", report);
  process.on("unhandledRejection", report);
  // It reaches the programs that cells have started; cells are stopped by the other thread.
  process.on("SIGINT", () => undefined);
}

if (isMainThread) {
  const EVENTS = 4;
  const send = (event: unknown): void => {
    const data = Buffer.from(`${JSON.stringify(event)}\n`);
    for (let sent = 0; sent < data.length;) {
      try {
        sent += writeSync(EVENTS, data, sent);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
      }
    }
  };
  survive();
  const shared = new Int32Array(new SharedArrayBuffer(4));
  const evaluator = createEvaluator({ typescript: process.argv[2] === "typescript", shared, send });
  const control = new Worker(new URL(import.meta.url), { workerData: shared });
  control.on("message", (message: CellRequest | "interrupted") => {
    if (message === "interrupted") evaluator.interrupted();
    else void evaluator.run(message);
  });
  // Nobody is there any more who could ask for anything.
  control.on("exit", () => process.exit(0));
  send({ type: "ready" });
} else {
  const port = parentPort;
  readRequests(workerData as Int32Array, (message) => port?.postMessage(message));
}
