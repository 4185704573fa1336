import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import type { ManagedProcess, ProcessSet } from "./processes.ts";
import { cleanEnv } from "./programs.ts";
import {
  type Fault,
  type JournalLine,
  NODE_FILES,
  type NodeScript,
  type ScriptedClaim,
  type ScriptedPool,
} from "./scripted-node-script.ts";
import { readClaims, readJournal } from "./scripted-node-state.ts";

/** A node of the mesh that does what a script says, in a process of its own. */
export interface ScriptedNode {
  readonly name: string;
  /** Where it listens, also before and after its process. */
  readonly address: string;
  readonly process: ManagedProcess;
  readonly script: NodeScript;
  /** Changes the script; its pools are full again and its faults unused. Resolves once the node follows it. */
  say(change: Partial<Omit<NodeScript, "version">>): Promise<void>;
  /** {@link say} with faults alone. */
  fail(...faults: Fault[]): Promise<void>;
  /** Ends the process at once, as a lost machine would. */
  kill(): Promise<void>;
  /** Starts the process again, with those of its sandboxes that `keep` picks. */
  restart(keep?: (claim: ScriptedClaim, index: number) => boolean): Promise<void>;
  claims(): readonly ScriptedClaim[];
  journal(): readonly JournalLine[];
}

/** Where and how {@link startScriptedNode} starts a node. */
export interface ScriptedNodeOptions {
  readonly name: string;
  /** A folder that the node has to itself. */
  readonly dir: string;
  readonly port: number;
  /** @default "127.0.0.1" */
  readonly host?: string;
  readonly script: Omit<NodeScript, "version">;
}

const START_MS = 20_000;

/** Starts a scripted node on a loopback port. */
export async function startScriptedNode(set: ProcessSet, options: ScriptedNodeOptions): Promise<ScriptedNode> {
  const { name, dir, port, host = "127.0.0.1" } = options;
  mkdirSync(dir, { recursive: true });
  let script: NodeScript = { ...options.script, version: 1 };
  const write = (): void => writeFileSync(join(dir, NODE_FILES.script), JSON.stringify(script));
  const start = async (): Promise<ManagedProcess> => {
    const child = await set.start({
      name: `scripted node ${name}`,
      command: process.execPath,
      args: [fileURLToPath(new URL("scripted-node-program.ts", import.meta.url)), dir, String(port), host],
      env: cleanEnv(),
    });
    await child.waitForOutput(/scripted node up/, START_MS);
    return child;
  };
  write();
  let running = await start();
  const say: ScriptedNode["say"] = async (change) => {
    script = { ...script, ...change, version: script.version + 1 };
    write();
    if (running.running()) {
      running.signal("SIGHUP");
      await running.waitForOutput(new RegExp(`script ${script.version}\\n`), START_MS);
    }
  };
  return {
    name,
    address: `${host.includes(":") ? `[${host}]` : host}:${port}`,
    get process() {
      return running;
    },
    get script() {
      return script;
    },
    say,
    fail: (...faults) => say({ faults }),
    kill: async () => {
      running.signal("SIGKILL");
      await running.ended;
    },
    restart: async (keep = () => true) => {
      await running.stop();
      writeFileSync(join(dir, NODE_FILES.claims), JSON.stringify(readClaims(dir).filter(keep)));
      running = await start();
    },
    claims: () => readClaims(dir),
    journal: () => readJournal(dir),
  };
}

/** A pool of the lane without network that tells the truth. */
export function pool(template: string, warm: number, more: Partial<ScriptedPool> = {}): ScriptedPool {
  return { template, net: "none", size: "small", warm, says: "", ...more };
}
