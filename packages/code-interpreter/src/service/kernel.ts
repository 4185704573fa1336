import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import type { Duplex, Readable } from "node:stream";

import type { KernelCommand } from "./languages.ts";
import { createLineReader } from "./line-reader.ts";
import { createMarkedText } from "./marked-text.ts";
import type { Emit, KernelEvent, Message } from "./messages.ts";

/** Longest event of a kernel, in bytes: a picture or a table. */
const EVENT_LIMIT = 64 * 1024 * 1024;
/** How long the end of the output is waited for once a cell is done: code may have put something else in its place. */
const MARK_WAIT_MS = 1000;
/** How long a process that has exited may keep its output open through others. */
const CLOSE_WAIT_MS = 1000;

/** Variables by name; `null` takes one away. */
export type Variables = Readonly<Record<string, string | null>>;

/** A cell for a kernel. */
export interface Cell {
  readonly code: string;
  /** Number of the cell in its context, from 1. */
  readonly count: number;
  /** Variables from now on. */
  readonly globals: Variables;
  /** Variables of this cell alone. */
  readonly variables: Variables;
}

/** A process that runs cells one after the other and remembers what they leave. */
export interface Kernel {
  /** Resolves, with a reason for people, when the process has ended in whatever way. */
  readonly ended: Promise<string>;
  /** Runs a cell and resolves when it is done and its output has been emitted, or when the process has ended. */
  run(cell: Cell, emit: Emit): Promise<"done" | "ended">;
  /** Asks the cell to stop; what the context has stays. */
  interrupt(): void;
  /** Ends the process and everything it has started in its group. */
  kill(): void;
}

/** The cell that runs. */
interface Running {
  readonly emit: Emit;
  readonly done: PromiseWithResolvers<void>;
  readonly marks: Readonly<Record<"stdout" | "stderr", PromiseWithResolvers<void>>>;
}

/** Starts a kernel. Never throws: a process that cannot be started ends at once. */
export function startKernel({ command, args }: KernelCommand, cwd: string): Kernel {
  const ending = Promise.withResolvers<string>();
  const child = spawnKernel(command, args, cwd);
  let running: Running | undefined;
  let failure: string | undefined;
  child.once("error", (error: NodeJS.ErrnoException) => {
    ending.resolve(error.code === "ENOENT" ? `${command} is not installed in this sandbox` : error.message);
  });
  let exited = false;
  const signalGroup = (signal: NodeJS.Signals): void => {
    // Another process may have the number by then.
    if (child.pid === undefined || exited) return;
    try {
      process.kill(-child.pid, signal);
    } catch {
      // Nobody is left.
    }
  };
  const fail = (reason: string): void => {
    failure ??= reason;
    signalGroup("SIGKILL");
  };
  child.once("exit", (code, signal) => {
    const reason = failure ?? (signal === null ? `it exited with status ${code}` : `it was ended by ${signal}`);
    // What it started may hold its output open; nobody could tell it to stop any more.
    signalGroup("SIGKILL");
    exited = true;
    const timer = setTimeout(() => ending.resolve(reason), CLOSE_WAIT_MS);
    child.once("close", () => {
      clearTimeout(timer);
      ending.resolve(reason);
    });
  });

  const [, stdout, stderr, requests, events] = child.stdio as [null, Readable, Readable, Duplex, Duplex];
  /** Messages that wait for a slow client. */
  let waiting = 0;
  const emitNow = async (message: Message): Promise<void> => {
    waiting += 1;
    try {
      await running?.emit(message);
    } finally {
      waiting -= 1;
    }
  };
  const texts = { stdout: createMarkedText(), stderr: createMarkedText() };
  const readOutput = async (type: "stdout" | "stderr", stream: Readable): Promise<void> => {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      for (const piece of texts[type].push(chunk)) {
        if ("marked" in piece) running?.marks[type].resolve();
        // Between cells there is nobody to tell.
        else await emitNow({ type, text: piece.text, timestamp: Date.now() * 1e6 });
      }
    }
  };
  const take = async (event: KernelEvent): Promise<void> => {
    if (event.type === "done") running?.done.resolve();
    else if (event.type !== "ready") await emitNow(event);
  };
  const readEvents = async (stream: Readable): Promise<void> => {
    const lines = createLineReader(EVENT_LIMIT);
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      for (const line of lines.push(chunk)) await take(JSON.parse(line) as KernelEvent);
    }
  };
  for (const stream of [stdout, stderr, requests, events]) stream?.on("error", () => undefined);
  if (child.pid !== undefined) {
    void readOutput("stdout", stdout).catch(() => undefined);
    void readOutput("stderr", stderr).catch(() => undefined);
    readEvents(events).catch((error: unknown) =>
      fail(error instanceof RangeError ? "a result was too large" : "it broke its protocol"),
    );
  }

  return {
    ended: ending.promise,
    run: async (cell, emit) => {
      const cut = Promise.withResolvers<void>();
      const mark = `\u0000${randomBytes(16).toString("hex")}\u0000`;
      const cellRun: Running = {
        emit,
        done: Promise.withResolvers(),
        marks: { stdout: Promise.withResolvers(), stderr: Promise.withResolvers() },
      };
      running = cellRun;
      texts.stdout.expect(mark);
      texts.stderr.expect(mark);
      requests?.write(`${JSON.stringify({ type: "execute", ...cell, mark })}\n`);
      const finish = async (): Promise<"done"> => {
        await cellRun.done.promise;
        const timer = setInterval(() => waiting === 0 && cut.resolve(), MARK_WAIT_MS);
        const { stdout: out, stderr: err } = cellRun.marks;
        await Promise.race([Promise.all([out.promise, err.promise]), cut.promise]);
        clearInterval(timer);
        return "done";
      };
      const end = await Promise.race([finish(), ending.promise.then(() => "ended" as const)]);
      cut.resolve();
      running = undefined;
      texts.stdout.expect(undefined);
      texts.stderr.expect(undefined);
      return end;
    },
    interrupt: () => {
      requests?.write('{"type":"interrupt"}\n');
      signalGroup("SIGINT");
    },
    kill: () => fail("it was stopped"),
  };
}

function spawnKernel(command: string, args: readonly string[], cwd: string): ChildProcess {
  return spawn(command, args, {
    cwd,
    // A group of its own, so that signals reach the programs that cells start.
    detached: true,
    stdio: ["ignore", "pipe", "pipe", "pipe", "pipe"],
  });
}
