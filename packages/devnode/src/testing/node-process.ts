import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { DevNodeOptions, FreezerKind, Isolation } from "../index.ts";
import { asUser } from "./as-user.ts";

/** A node in another process. */
export interface NodeProcess extends AsyncDisposable {
  readonly address: string;
  readonly isolation: Isolation;
  readonly freezer: FreezerKind;
  readonly separateUsers: boolean;
  readonly pid: number;
  /** Ends it at once, as a crash would. */
  crash(): Promise<void>;
}

/** What a node's parent leaves it. */
export interface Inheritance {
  /** A descriptor, and the number under which the node gets it. */
  readonly descriptor?: { readonly fd: number; readonly as: number } | undefined;
  /** Command line in front of the node's. */
  readonly prefix?: readonly string[] | undefined;
}

/** Starts a node and waits until its pools are full. `uid` runs it as that user, which needs root. */
export async function startNodeProcess(
  options: DevNodeOptions,
  uid?: number,
  { descriptor, prefix = [] }: Inheritance = {},
): Promise<NodeProcess> {
  const main = fileURLToPath(new URL("./node-process-main.ts", import.meta.url));
  const line = [...prefix, process.execPath, "--conditions=@org/source", main, JSON.stringify(options)];
  const { words, ids } = uid === undefined ? { words: line, ids: undefined } : asUser(uid, line);
  const more: ("ignore" | number)[] = Array.from({ length: (descriptor?.as ?? 2) - 2 }, () => "ignore" as const);
  if (descriptor !== undefined) {
    more[descriptor.as - 3] = descriptor.fd;
  }
  const child: ChildProcess = spawn(words[0] ?? "", words.slice(1), {
    stdio: ["ignore", "pipe", "pipe", ...more],
    cwd: "/",
    ...ids,
  });
  const exited = once(child, "exit");
  let errors = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    errors += text;
  });
  const firstLine = await new Promise<string>((resolve, reject) => {
    let text = "";
    child.stdout?.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
      if (text.includes("\n")) {
        resolve(text);
      }
    });
    child.once("exit", (code) => reject(new Error(`node process ended with ${code}: ${errors}`)));
  });
  const facts = JSON.parse(firstLine) as Omit<NodeProcess, "pid" | "crash" | keyof AsyncDisposable>;
  return {
    ...facts,
    pid: child.pid ?? 0,
    crash: async () => {
      child.kill("SIGKILL");
      await exited;
    },
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGTERM");
      await exited;
    },
  };
}
