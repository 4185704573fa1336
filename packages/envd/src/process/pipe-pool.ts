import { spawn } from "node:child_process";
import { closeSync, constants, openSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";

import { errnoOf } from "../errors.ts";
import type { EnvdLogger } from "../options.ts";

/** Both ends of a pipe; the reading one does not block. Whoever takes them closes them. */
export interface PipeEnds {
  readonly readFd: number;
  readonly writeFd: number;
}

/** Pipes for the standard streams of commands. */
export interface PipePool extends Disposable {
  /** Makes some ahead of the first command. */
  warm(): void;
  /** Takes this many; undefined when the guest cannot make pipes. */
  take(count: number): Promise<PipeEnds[] | undefined>;
}

const BATCH = 24;
const LOW_WATER = 9;

/**
 * Node gives children socket pairs, and a socket cannot be opened through `/dev/stdout`, `/dev/stderr` or `/dev/stdin`,
 * which scripts do. So commands get pipes: named ones, made by the batch with `mkfifo`, opened at once and unlinked.
 * Anyone may open them through `/dev/…`, but only from inside a command that was given one.
 */
export function createPipePool(options: {
  readonly tempDir: string;
  readonly path: string;
  readonly logger: EnvdLogger;
}): PipePool {
  const ready: PipeEnds[] = [];
  let wanted = 0;
  let filling: Promise<boolean> | undefined;
  let unavailable = false;
  let closed = false;

  const canFill = (): boolean => !unavailable && !closed;

  async function fill(): Promise<void> {
    const directory = await mkdtemp(join(options.tempDir, ".envd-"));
    try {
      const names = Array.from({ length: BATCH + wanted }, (_, index) => join(directory, String(index)));
      await run("mkfifo", ["-m", "0666", ...names], options.path);
      for (const name of names) {
        const readFd = openSync(name, constants.O_RDONLY | constants.O_NONBLOCK);
        ready.push({ readFd, writeFd: openSync(name, constants.O_WRONLY) });
      }
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  }

  /** False when no pipes could be made. */
  function refill(): Promise<boolean> {
    filling ??= tryFill().finally(() => {
      filling = undefined;
      if (closed) closeAll();
    });
    return filling;
  }

  async function tryFill(): Promise<boolean> {
    try {
      await fill();
      return true;
    } catch (error) {
      // A missing program stays missing; a full disk or process table may not.
      unavailable = errnoOf(error) === "ENOENT";
      options.logger.warn({ error }, "commands get sockets instead of pipes");
      return false;
    }
  }

  function closeAll(): void {
    for (const ends of ready.splice(0)) closePipe(ends);
  }

  return {
    warm() {
      if (ready.length === 0 && canFill()) void refill();
    },
    async take(count) {
      wanted += count;
      try {
        while (ready.length < count && canFill()) if (!(await refill())) break;
      } finally {
        wanted -= count;
      }
      if (ready.length < count) return undefined;
      const taken = ready.splice(0, count);
      if (ready.length < LOW_WATER && canFill()) void refill();
      return taken;
    },
    [Symbol.dispose]() {
      closed = true;
      closeAll();
    },
  };
}

/** Closes both ends. */
export function closePipe({ readFd, writeFd }: PipeEnds): void {
  closeSync(readFd);
  closeSync(writeFd);
}

function run(command: string, args: readonly string[], path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: "ignore", env: { PATH: path } });
    child.on("error", reject);
    child.on("exit", (code, signal) => {
      if (code === 0) resolve();
      else reject(new Error(`${command} ended with ${code ?? signal}`));
    });
  });
}
