import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { NODE_FLAGS } from "./remote.ts";

const PROGRAM = fileURLToPath(new URL("../../../apps/sandbox-e2b/src/main.ts", import.meta.url));
const ANY_PORT = "127.0.0.1:0";
const START_MS = 120_000;
const STOP_MS = 15_000;

/** A running `sandbox-e2b dev`, from its sources. */
export interface DevService extends AsyncDisposable {
  /** What its greeting tells to export. */
  readonly apiUrl: string;
  readonly apiKey: string;
  readonly sandboxUrl: string;
  /** How its guests are kept apart. */
  readonly isolation: string;
}

/** Starts `sandbox-e2b dev` with so many warm guests and waits for its greeting. */
export async function startDev(warm: number): Promise<DevService> {
  const folder = await mkdtemp(join(tmpdir(), "bench-dev-"));
  const args = [
    "dev",
    `--state-dir=${folder}`,
    `--warm=${warm}`,
    "--warm-egress=0",
    `--e2b-bind-address=${ANY_PORT}`,
    `--envd-proxy-bind-address=${ANY_PORT}`,
  ];
  const child = spawn(process.execPath, [...process.execArgv, ...NODE_FLAGS, PROGRAM, ...args], {
    env: { PATH: process.env["PATH"], HOME: folder, OPERATOR_LOG_LEVEL: "error" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const stop = async (): Promise<void> => {
    await ended(child);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const greeting = await greetingOf(child);
    const variable = (name: string): string => new RegExp(`export ${name}='([^']+)'`).exec(greeting)?.[1] ?? "";
    return {
      apiUrl: variable("E2B_API_URL"),
      apiKey: variable("E2B_API_KEY"),
      sandboxUrl: variable("E2B_SANDBOX_URL"),
      isolation: /isolation (\w+)/.exec(greeting)?.[1] ?? "",
      [Symbol.asyncDispose]: stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

function greetingOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    const timer = setTimeout(() => reject(new Error(`sandbox-e2b dev did not start: ${text}`)), START_MS);
    const read = (chunk: Buffer): void => {
      text += chunk.toString("utf8");
      if (text.includes("Stop: Ctrl-C")) {
        clearTimeout(timer);
        resolve(text);
      }
    };
    child.stdout?.on("data", read);
    child.stderr?.on("data", read);
    child.once("exit", () => {
      clearTimeout(timer);
      reject(new Error(`sandbox-e2b dev ended: ${text}`));
    });
    child.once("error", reject);
  });
}

/** Asks it to end, and makes it when it does not. */
async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) {
    return;
  }
  const exit = once(child, "exit");
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
  await exit;
  clearTimeout(timer);
}
