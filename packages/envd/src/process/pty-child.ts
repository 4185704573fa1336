import { writeSync } from "node:fs";
import { chown } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

import { EnvdError, errnoOf } from "../errors.ts";
import type { GuestUser } from "../guest/users.ts";
import { type Child, type ChildEvents, pieces } from "./child.ts";
import { exitedWith, type ExitStatus, killedBy } from "./exit-status.ts";
import { type Launch, launchError } from "./launch.ts";
import type { PtyModule, PtyTerminal } from "./pty-module.ts";

const PIECE_BYTES = 16 * 1024;
const DEFAULT_SIZE = { cols: 80, rows: 24 };
/** Largest value of the kernel's window size. */
const MAX_SIZE = 0xffff;
/** The library drops a terminal 200 ms after its process has ended; a held-up reader must notice well before. */
const EXIT_CHECK_MS = 40;
/** More than a terminal takes at once. */
const WRITE_BYTES = 64 * 1024;
const FIRST_WAIT_MS = 1;
const LONGEST_WAIT_MS = 50;

/** A terminal's size; 0 stands for what was not given. */
export interface PtySize {
  readonly cols: number;
  readonly rows: number;
}

/**
 * Starts a command in a terminal of its own.
 *
 * @throws EnvdError when it cannot be started
 */
export function spawnPtyChild(
  launch: Launch,
  user: GuestUser,
  size: PtySize | undefined,
  pty: PtyModule,
  events: ChildEvents,
): Child {
  let terminal: PtyTerminal;
  try {
    terminal = pty.spawn(launch.file, [...launch.args], {
      cols: sizeOr(size?.cols, DEFAULT_SIZE.cols),
      rows: sizeOr(size?.rows, DEFAULT_SIZE.rows),
      cwd: launch.cwd,
      // Programs draw garbage in a terminal without a kind and a UTF-8 locale.
      env: { TERM: "xterm-256color", LANG: "C.UTF-8", ...launch.env },
      encoding: null,
      ...launch.ids,
    }) as PtyTerminal;
  } catch (error) {
    throw error instanceof EnvdError ? error : launchError(error);
  }
  const { pid, _socket: socket } = terminal;
  if (launch.switched && terminal.ptsName !== undefined) {
    // Programs that open their terminal by name need to own it.
    chown(terminal.ptsName, user.uid, user.gid).catch(() => undefined);
  }
  let ended = false;
  let exitCheck: NodeJS.Timeout | undefined;

  socket.on("data", (bytes) => {
    for (const piece of pieces(bytes, PIECE_BYTES)) events.onOutput("pty", piece);
  });
  // The library throws errors that nobody but itself listens to.
  socket.on("error", () => undefined);
  terminal.onExit(({ exitCode, signal }) => {
    if (ended) return;
    ended = true;
    clearInterval(exitCheck);
    events.onEnd(statusOf(exitCode, signal));
  });

  function resume(): void {
    clearInterval(exitCheck);
    exitCheck = undefined;
    socket.resume();
  }

  return {
    pid,
    kind: "pty",
    pause() {
      socket.pause();
      exitCheck ??= setInterval(() => {
        // What the kernel holds of an ended process is little, and would be lost.
        if (!isAlive(pid)) resume();
      }, EXIT_CHECK_MS);
    },
    resume,
    write(data) {
      return writeAll(terminal, data);
    },
    closeInput() {
      throw new EnvdError("unknown", "stdin of a terminal cannot be closed; send Ctrl+D (byte 4) instead");
    },
    resize(cols, rows) {
      if (!isSize(cols) || !isSize(rows)) {
        throw new EnvdError("invalid_argument", `terminal size must be between 1 and ${MAX_SIZE}`);
      }
      if (socket.destroyed) throw closedError();
      terminal.resize(cols, rows);
    },
    kill(signal) {
      if (!ended) signalTo(pid, signal);
    },
    destroy() {
      if (ended) return;
      signalTo(-pid, "SIGKILL");
      resume();
      socket.destroy();
    },
  };
}

/**
 * Writes without ever waiting inside a call: the runtime's own stream blocks the whole process once a terminal that
 * nobody reads is full. The descriptor is only touched while it is known to be open, in the same turn.
 */
async function writeAll({ _socket: socket, fd }: PtyTerminal, data: Uint8Array): Promise<void> {
  let waitMs = FIRST_WAIT_MS;
  for (let at = 0; at < data.length;) {
    if (socket.destroyed) throw closedError();
    const written = tryWrite(fd, data.subarray(at, at + WRITE_BYTES));
    at += written;
    waitMs = written > 0 ? FIRST_WAIT_MS : Math.min(waitMs * 2, LONGEST_WAIT_MS);
    if (at < data.length) await sleep(waitMs, undefined, { ref: false });
  }
  if (socket.destroyed) throw closedError();
}

/** Number of bytes the terminal took; 0 when it is full. */
function tryWrite(fd: number, data: Uint8Array): number {
  try {
    return writeSync(fd, data);
  } catch (error) {
    const errno = errnoOf(error) ?? "failed";
    if (errno === "EAGAIN") return 0;
    throw new EnvdError("internal", `cannot write to the terminal: ${errno}`, { cause: error });
  }
}

function closedError(): EnvdError {
  return new EnvdError("internal", "the terminal of this process is closed");
}

function statusOf(exitCode: number, signal: number | undefined): ExitStatus {
  return signal === undefined || signal === 0 ? exitedWith(exitCode) : killedBy(signal);
}

function isSize(value: number): boolean {
  return Number.isInteger(value) && value >= 1 && value <= MAX_SIZE;
}

function sizeOr(value: number | undefined, fallback: number): number {
  return value === undefined || value === 0 ? fallback : Math.min(value, MAX_SIZE);
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return errnoOf(error) === "EPERM";
  }
}

function signalTo(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It is gone already.
  }
}
