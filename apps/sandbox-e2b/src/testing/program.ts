import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const MAIN = fileURLToPath(new URL("../main.ts", import.meta.url));

/** A run of the program, from its sources. */
export interface ProgramRun extends AsyncDisposable {
  readonly stdout: string;
  readonly stderr: string;
  /** Waits until stdout or stderr matches; rejects when the program ends first. */
  output(pattern: RegExp): Promise<RegExpMatchArray>;
  /** The exit status, once it ended. */
  readonly exited: Promise<number | null>;
  signal(name: NodeJS.Signals): void;
}

/** Starts `main.ts` with nothing of our own environment but what a program needs to run. */
export function startProgram(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  nodeArgs: readonly string[] = [],
): ProgramRun {
  const child = spawn(process.execPath, ["--conditions=@org/source", ...nodeArgs, MAIN, ...args], {
    env: { PATH: process.env["PATH"] ?? "", HOME: process.env["HOME"] ?? "/", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const texts = { stdout: "", stderr: "" };
  const watchers = new Set<() => void>();
  for (const name of ["stdout", "stderr"] as const) {
    child[name].setEncoding("utf8").on("data", (text: string) => {
      texts[name] += text;
      for (const watch of watchers) watch();
    });
  }
  const exited = new Promise<number | null>((resolve) => child.once("close", (status) => resolve(status)));
  return {
    get stdout() {
      return texts.stdout;
    },
    get stderr() {
      return texts.stderr;
    },
    exited,
    output(pattern) {
      return new Promise((resolve, reject) => {
        const watch = (): void => {
          const match = pattern.exec(texts.stdout) ?? pattern.exec(texts.stderr);
          if (match === null) return;
          watchers.delete(watch);
          resolve(match);
        };
        watchers.add(watch);
        watch();
        void exited.then((status) =>
          reject(new Error(`ended with ${status} before ${String(pattern)}: ${texts.stderr}${texts.stdout}`)),
        );
      });
    },
    signal: (name) => void child.kill(name),
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
      await exited;
    },
  };
}

/** A folder that is gone after the test. */
export async function scratchFolder(): Promise<{ readonly path: string } & AsyncDisposable> {
  const path = await mkdtemp(join(tmpdir(), "sandbox-e2b-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}
