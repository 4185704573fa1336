import { readFileSync, readdirSync, readlinkSync } from "node:fs";

/** Start time of a process in clock ticks since boot, which tells a process from a later one with the same id. */
export function processStart(pid: number): string | undefined {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch {
    return undefined;
  }
  // The name in parentheses may hold blanks and parentheses; the fields are counted from behind it.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields[0] === "Z" || fields[0] === "X" ? undefined : fields[19];
}

/** Direct children of a process, over all of its threads. */
export function childrenOf(pid: number): number[] {
  const children: number[] = [];
  try {
    for (const task of readdirSync(`/proc/${pid}/task`)) {
      for (const word of readFileSync(`/proc/${pid}/task/${task}/children`, "utf8").split(" ")) {
        const child = Number(word);
        if (child > 0) {
          children.push(child);
        }
      }
    }
  } catch {
    return children;
  }
  return children;
}

/** A process and everything below it, parents first. */
export function processTree(root: number): number[] {
  const pids = [root];
  for (let index = 0; index < pids.length; index += 1) {
    const pid = pids[index];
    if (pid !== undefined) {
      pids.push(...childrenOf(pid));
    }
  }
  return pids;
}

/** State letter of a process: `T` stopped, `t` traced, `D` in a wait that no signal ends, `Z` dead; nothing when gone. */
export function processState(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.charAt(stat.lastIndexOf(")") + 2);
  } catch {
    return undefined;
  }
}

/** Names this boot and pid namespace: process ids written elsewhere mean nothing here. */
export function processScope(): string {
  try {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    return `${boot} ${readlinkSync("/proc/self/ns/pid")}`;
  } catch {
    return process.platform;
  }
}

/** Processes whose environment has this entry; those of other users are not seen. */
export function processesWith(entry: string): number[] {
  const wanted = Buffer.from(`${entry}\0`);
  const found: number[] = [];
  for (const name of readdirSync("/proc")) {
    if (!/^[0-9]+$/.test(name)) {
      continue;
    }
    try {
      if (readFileSync(`/proc/${name}/environ`).includes(wanted)) {
        found.push(Number(name));
      }
    } catch {
      // Gone, or not ours.
    }
  }
  return found;
}

/** Resident memory of processes in bytes. Pages they share are counted for each. */
export function residentBytes(pids: readonly number[]): number {
  let kibibytes = 0;
  for (const pid of pids) {
    try {
      kibibytes += Number(/^VmRSS:\s*([0-9]+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);
    } catch {
      // Gone.
    }
  }
  return kibibytes * 1024;
}
