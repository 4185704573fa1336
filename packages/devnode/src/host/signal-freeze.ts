import { setTimeout as sleep } from "node:timers/promises";
import { processState } from "./proc.ts";

/** Stops and continues a process tree by signals, where no cgroup can do it. */
export interface SignalFreezer {
  freeze(): Promise<void>;
  thaw(): Promise<void>;
}

const MOST_ROUNDS = 200;
/** Stopped, held by a tracer that is stopped, too, or dead. */
const STILL = /^[TtZX]$/;

/**
 * Freezes what `members` lists, parents before their children, so that none can start new ones; they are listed again
 * until nothing is found that still runs. What was stopped before stays stopped afterwards. Rejects, with all of it
 * running again, when processes come faster than they can be stopped.
 */
export function createSignalFreezer(members: () => readonly number[]): SignalFreezer {
  let stopped: number[] = [];
  const thaw = async (): Promise<void> => {
    // Children first: a parent that runs before its child would see it as stopped.
    for (const pid of stopped.toReversed()) {
      signal(pid, "SIGCONT");
    }
    stopped = [];
  };
  return {
    freeze: async () => {
      const before = new Set(members().filter((pid) => STILL.test(processState(pid) ?? "")));
      const ours = new Set<number>();
      const runs = (pid: number): boolean => {
        if (process.platform !== "linux") {
          // Nothing tells; a signal that was taken has to do.
          return !ours.has(pid);
        }
        const state = processState(pid);
        // One that waits for a child to become another program does so with its stop signal pending.
        return state !== undefined && !STILL.test(state) && !(state === "D" && ours.has(pid));
      };
      let running = members().filter(runs);
      for (let round = 0; running.length > 0 || round < 2; round += 1) {
        if (round === MOST_ROUNDS) {
          stopped = [...ours];
          await thaw();
          throw new Error("processes come faster than they can be stopped");
        }
        for (const pid of running) {
          if (signal(pid, "SIGSTOP") && !before.has(pid)) {
            ours.add(pid);
          }
        }
        await sleep(1);
        running = members().filter(runs);
      }
      stopped = [...ours];
    },
    thaw,
  };
}

function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
}
