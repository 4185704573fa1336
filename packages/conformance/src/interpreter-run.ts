import type { Args } from "./args.ts";
import { INTERPRETER_CLIENTS } from "./catalogue.ts";
import { launcherFor, runClientSuite } from "./clients.ts";
import type { ProcessSet } from "./processes.ts";
import type { Programs } from "./programs.ts";
import type { ResultCollector } from "./results.ts";
import { startDev, type TokenMode } from "./rig.ts";

/** What a run of the code interpreter's clients works with. */
export interface InterpreterRun {
  readonly set: ProcessSet;
  readonly programs: Programs;
  readonly args: Args;
  readonly collector: ResultCollector;
  readonly say: (line: string) => void;
  readonly versions: Map<string, string>;
}

/** True for a client that runs this suite and no other. */
export function isInterpreterClient(client: string | undefined): boolean {
  return INTERPRETER_CLIENTS.some((name) => name === client);
}

/** Runs the clients of the code interpreter over a `dev` whose `code-interpreter-v1` is its own template. */
export async function runInterpreterSuite(run: InterpreterRun, modes: readonly TokenMode[]): Promise<void> {
  const { set, programs, args, collector, say } = run;
  const clients = INTERPRETER_CLIENTS.filter((name) => args.client === undefined || args.client === name);
  for (const mode of clients.length === 0 ? [] : modes) {
    await using rig = await startDev(set, programs, {
      mode,
      isolation: args.isolation,
      nodes: 1,
      warm: 4,
      warmEgress: 1,
      interpreter: true,
    });
    for (const client of clients) {
      const launcher = await launcherFor(set, client);
      if (launcher.kind === "ready") {
        run.versions.set(client, launcher.version);
      }
      say(`${client} ${mode}: ${launcher.kind === "ready" ? launcher.version : launcher.reason}`);
      const options = { set, launcher, client, suite: "interpreter", rig: rig.facts, collector };
      await runClientSuite({ ...options, onlyRow: args.row, onRow: say });
    }
  }
}
