import { type ChildProcess, spawn, type StdioOptions } from "node:child_process";
import { once } from "node:events";
import { closeSync } from "node:fs";
import { Socket } from "node:net";
import type { Readable, Writable } from "node:stream";

import { EnvdError, errnoOf } from "../errors.ts";
import { type Child, type ChildEvents, pieces } from "./child.ts";
import { exitedWith, killedBy } from "./exit-status.ts";
import { type Launch, launchError } from "./launch.ts";
import { closePipe, type PipeEnds, type PipePool } from "./pipe-pool.ts";

const PIECE_BYTES = 32 * 1024;
/** How long a killed command's last output is waited for when something else holds its pipes. */
const GRACE_MS = 100;

/**
 * Starts a command behind pipes.
 *
 * @throws EnvdError when it cannot be started
 */
export async function spawnPipeChild(
  launch: Launch,
  withStdin: boolean,
  pool: PipePool,
  events: ChildEvents,
): Promise<Child> {
  const pipes = await pool.take(withStdin ? 3 : 2);
  const { child, stdout, stderr, stdin } = await start(launch, withStdin, pipes);
  // A command without a pid was not started, and `start` has thrown.
  const pid = child.pid ?? 0;
  const readers = [stdout, stderr];
  let exit: readonly [number | null, NodeJS.Signals | null] | undefined;
  let open = readers.length;
  let cut = false;
  let ended = false;
  let inputClosed = stdin === undefined;

  function settle(): void {
    if (ended || exit === undefined || open > 0) return;
    ended = true;
    stdin?.destroy();
    const [code, signal] = exit;
    events.onEnd(signal === null ? exitedWith(code ?? 0) : killedBy(signal));
  }

  /** Gives up on readers whose other end some process still holds. */
  function cutReaders(): void {
    const timer = setTimeout(() => readers.forEach((reader) => reader.destroy()), GRACE_MS);
    timer.unref();
  }

  for (const [name, reader] of [["stdout", stdout] as const, ["stderr", stderr] as const]) {
    reader.on("data", (bytes: Buffer) => {
      for (const piece of pieces(bytes, PIECE_BYTES)) events.onOutput(name, piece);
    });
    reader.on("error", () => reader.destroy());
    reader.on("close", () => {
      open -= 1;
      settle();
    });
  }
  stdin?.on("error", () => stdin.destroy());
  child.on("error", () => undefined);
  child.on("exit", (code, signal) => {
    exit = [code, signal];
    if (cut) cutReaders();
    settle();
  });

  return {
    pid,
    kind: "pipe",
    pause: () => readers.forEach((reader) => reader.pause()),
    resume: () => readers.forEach((reader) => reader.resume()),
    write(data) {
      if (stdin === undefined) throw new EnvdError("internal", "stdin of this process is not enabled");
      if (inputClosed || !stdin.writable) throw new EnvdError("internal", "stdin of this process is closed");
      return data.length === 0 ? Promise.resolve() : writeAll(stdin, data);
    },
    closeInput() {
      if (stdin === undefined || inputClosed) return;
      inputClosed = true;
      stdin.end();
    },
    resize() {
      throw new EnvdError("internal", "this process has no terminal");
    },
    kill(signal) {
      cut = true;
      if (exit === undefined) child.kill(signal);
      else cutReaders();
    },
    destroy() {
      cut = true;
      if (exit === undefined) killGroup(pid);
      readers.forEach((reader) => reader.destroy());
      stdin?.destroy();
    },
  };
}

interface Started {
  readonly child: ChildProcess;
  readonly stdout: Readable;
  readonly stderr: Readable;
  readonly stdin: Writable | undefined;
}

async function start(launch: Launch, withStdin: boolean, pipes: PipeEnds[] | undefined): Promise<Started> {
  const [out, err, input] = pipes ?? [];
  const stdio: StdioOptions = [
    withStdin ? (input?.readFd ?? "pipe") : "ignore",
    out?.writeFd ?? "pipe",
    err?.writeFd ?? "pipe",
  ];
  let child: ChildProcess;
  try {
    // A session of its own keeps `kill 0` and terminal signals of a command away from the daemon.
    child = spawn(launch.file, launch.args, {
      cwd: launch.cwd,
      env: launch.env,
      stdio,
      detached: true,
      ...launch.ids,
    });
    if (child.pid === undefined) throw (await once(child, "error"))[0];
  } catch (error) {
    pipes?.forEach(closePipe);
    throw launchError(error);
  }
  if (out === undefined || err === undefined) {
    return { child, stdout: existing(child.stdout), stderr: existing(child.stderr), stdin: child.stdin ?? undefined };
  }
  // The daemon's copies of the command's ends would keep the pipes open after it.
  closeSync(out.writeFd);
  closeSync(err.writeFd);
  if (input !== undefined) closeSync(input.readFd);
  return {
    child,
    stdout: new Socket({ fd: out.readFd, readable: true, writable: false }),
    stderr: new Socket({ fd: err.readFd, readable: true, writable: false }),
    stdin: input === undefined ? undefined : new Socket({ fd: input.writeFd, readable: false, writable: true }),
  };
}

function existing<T>(stream: T | null): T {
  if (stream === null) throw new EnvdError("internal", "the command has no output streams");
  return stream;
}

function writeAll(stdin: Writable, data: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    stdin.write(data, (error) => {
      if (error === null || error === undefined) resolve();
      else {
        reject(new EnvdError("internal", `cannot write to stdin: ${errnoOf(error) ?? "failed"}`, { cause: error }));
      }
    });
  });
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It is gone already.
  }
}
