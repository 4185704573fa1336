import { setTimeout as sleep } from "node:timers/promises";
import { isStopped } from "./proc.ts";

/** Stops and continues a process tree by signals, where no cgroup can do it. */
export interface SignalFreezer {
  freeze(): Promise<void>;
  thaw(): Promise<void>;
}

/**
 * Freezes what `members` lists, parents before their children, so that none can start new ones; they are listed again
 * until nothing is found that still runs. What was stopped before stays stopped afterwards.
 */
export function createSignalFreezer(members: () => readonly number[]): SignalFreezer {
  let stopped: number[] = [];
  return {
    freeze: async () => {
      const before = new Set(members().filter(isStopped));
      const ours = new Set<number>();
      for (let round = 0; round < 200; round += 1) {
        const running = members().filter((pid) => !isStopped(pid));
        if (running.length === 0 && round > 0) {
          break;
        }
        for (const pid of running) {
          if (signal(pid, "SIGSTOP") && !before.has(pid)) {
            ours.add(pid);
          }
        }
        await sleep(1);
      }
      stopped = [...ours];
    },
    thaw: async () => {
      // Children first: a parent that runs before its child would see it as stopped.
      for (const pid of stopped.toReversed()) {
        signal(pid, "SIGCONT");
      }
      stopped = [];
    },
  };
}

function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
}
