import { spawn } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";

/** How a process ended. */
export interface ProcessEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A process of the harness, in a process group of its own. */
export interface ManagedProcess {
  readonly name: string;
  readonly pid: number;
  /** Resolves once the process is gone and its output was read. Never rejects. */
  readonly ended: Promise<ProcessEnd>;
  running(): boolean;
  stdout(): string;
  stderr(): string;
  /** The last lines of both outputs, for a failure's detail. */
  tail(): string;
  /** Signals the process alone, or its whole group. */
  signal(signal: NodeJS.Signals, whole?: boolean): void;
  /** Waits until the output holds the pattern. Throws when the process ends before, or after `timeoutMs`. */
  waitForOutput(pattern: RegExp, timeoutMs: number): Promise<RegExpMatchArray>;
  /** SIGTERM, then SIGKILL to the group after `graceMs`. Resolves when it is gone; safe to repeat. */
  stop(graceMs?: number): Promise<ProcessEnd>;
}

/** What {@link ProcessSet.start} runs. */
export interface StartOptions {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** The whole environment of the process, not an addition to ours. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  /** Text for standard input, which is closed after it. Absent: `/dev/null`. */
  readonly input?: string | Uint8Array;
  /** Called with each line of standard output. */
  readonly onLine?: (line: string) => void;
}

const KEPT_OUTPUT = 64 << 20;

/** Starts processes and makes sure that none outlives the set. */
export class ProcessSet implements AsyncDisposable {
  readonly #live = new Set<ManagedProcess>();

  /** Starts a process. Throws when the program cannot be started. */
  async start(options: StartOptions): Promise<ManagedProcess> {
    const child = spawn(options.command, [...options.args], {
      detached: true,
      env: { ...options.env },
      stdio: [options.input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    });
    let stdout = "";
    let stderr = "";
    let pending = "";
    let end: ProcessEnd | undefined;
    const listeners = new Set<() => void>();
    const notify = (): void => {
      for (const listener of listeners) {
        listener();
      }
    };
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      stdout = (stdout + text).slice(-KEPT_OUTPUT);
      if (options.onLine !== undefined) {
        const lines = (pending + text).split("\n");
        pending = lines.pop() ?? "";
        lines.forEach(options.onLine);
      }
      notify();
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      stderr = (stderr + text).slice(-KEPT_OUTPUT);
      notify();
    });
    child.stdin?.on("error", () => {
      // The program ended without reading all of its input: its exit status tells.
    });
    if (options.input !== undefined) {
      child.stdin?.end(options.input);
    }
    const ended = new Promise<ProcessEnd>((resolve) => {
      child.once("close", (code, signal) => {
        end = { code, signal };
        notify();
        resolve(end);
      });
    });
    await new Promise<void>((resolve, reject) => {
      child.once("spawn", resolve);
      child.once("error", (cause) => reject(new Error(`${options.name} cannot be started`, { cause })));
    });
    const pid = child.pid ?? 0;

    const managed: ManagedProcess = {
      name: options.name,
      pid,
      ended,
      running: () => end === undefined,
      stdout: () => stdout,
      stderr: () => stderr,
      tail: () => lastLines(stdout, 5).concat(lastLines(stderr, 15)).join("\n"),
      signal: (signal, whole = false) => {
        if (end === undefined) {
          sendSignal(whole ? -pid : pid, signal);
        }
      },
      waitForOutput: (pattern, timeoutMs) =>
        new Promise<RegExpMatchArray>((resolve, reject) => {
          const finish = (): void => {
            clearTimeout(timer);
            listeners.delete(check);
          };
          const check = (): void => {
            const match = stdout.match(pattern) ?? stderr.match(pattern);
            if (match !== null) {
              finish();
              resolve(match);
            } else if (end !== undefined) {
              finish();
              reject(new Error(`${options.name} ended (${describeEnd(end)}) before ${pattern}\n${managed.tail()}`));
            }
          };
          const timer = setTimeout(() => {
            finish();
            reject(new Error(`${options.name}: no ${pattern} within ${timeoutMs} ms\n${managed.tail()}`));
          }, timeoutMs);
          listeners.add(check);
          check();
        }),
      stop: async (graceMs = 15_000) => {
        if (end === undefined) {
          sendSignal(pid, "SIGTERM");
          const gone = await Promise.race([ended.then(() => true), delay(graceMs, false, { ref: false })]);
          if (!gone) {
            sendSignal(-pid, "SIGKILL");
          }
        }
        const last = await ended;
        // Children that ignored the signal or were orphaned stay in the group.
        sendSignal(-pid, "SIGKILL");
        return last;
      },
    };
    // It may have ended before anybody could take note of it.
    this.#live.add(managed);
    void ended.then(() => this.#live.delete(managed));
    return managed;
  }

  /** Kills every process group at once, without waiting: for the harness's own sudden end. */
  killAllNow(): void {
    for (const child of this.#live) {
      sendSignal(-child.pid, "SIGKILL");
    }
  }

  /** Stops everything that still runs. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#live].map((child) => child.stop(5_000)));
  }
}

/** `exit status 1`, or `signal SIGKILL`. */
export function describeEnd(end: ProcessEnd): string {
  return end.signal === null ? `exit status ${end.code}` : `signal ${end.signal}`;
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // Gone already.
  }
}

function lastLines(text: string, count: number): string[] {
  return text.trimEnd().split("\n").slice(-count);
}
