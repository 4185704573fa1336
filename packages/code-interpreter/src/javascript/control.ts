import { Session } from "node:inspector";
import { Socket } from "node:net";
import { createInterface } from "node:readline";

import type { CellRequest } from "./evaluator.ts";

const REQUESTS = 3;

/**
 * Passes requests on, and stops the cell of the main thread when it is told to. `shared` tells whether one runs: between
 * cells, the next one would be stopped.
 */
export function readRequests(shared: Int32Array, pass: (message: CellRequest | "interrupted") => void): void {
  const lines = createInterface({ input: new Socket({ fd: REQUESTS, readable: true, writable: false }) });
  lines.on("line", (line) => {
    const request = JSON.parse(line) as CellRequest | { readonly type: "interrupt" };
    if (request.type === "execute") pass(request);
    else if (Atomics.load(shared, 0) === 1) terminate(() => pass("interrupted"));
  });
  lines.on("close", () => process.exit(0));
}

/** Ends whatever the main thread executes right now. Connected for this moment only: a connection holds up the exit. */
function terminate(done: () => void): void {
  const session = new Session();
  session.connectToMainThread();
  session.post("Runtime.terminateExecution", () => {
    session.disconnect();
    done();
  });
}
