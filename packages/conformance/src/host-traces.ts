import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

/** A process as the kernel lists it: a pid alone may be used again. */
export interface ProcessTrace {
  readonly pid: number;
  readonly startTime: string;
  readonly command: string;
}

/** Every process below `root`, itself not included, over all generations. */
export async function descendants(root: number): Promise<ProcessTrace[]> {
  const parents = new Map<number, ProcessTrace & { readonly parent: number }>();
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name)) {
      continue;
    }
    const trace = await traceOf(Number(name));
    if (trace !== undefined) {
      parents.set(trace.pid, trace);
    }
  }
  const found: ProcessTrace[] = [];
  const queue = [root];
  for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
    for (const trace of parents.values()) {
      if (trace.parent === next) {
        found.push({ pid: trace.pid, startTime: trace.startTime, command: trace.command });
        queue.push(trace.pid);
      }
    }
  }
  return found;
}

/** Those of the processes that still run (a zombie nobody has collected does not). */
export async function stillRunning(traces: readonly ProcessTrace[]): Promise<ProcessTrace[]> {
  const alive: ProcessTrace[] = [];
  for (const trace of traces) {
    const now = await traceOf(trace.pid);
    if (now !== undefined && now.startTime === trace.startTime && now.state !== "Z") {
      alive.push(trace);
    }
  }
  return alive;
}

async function traceOf(
  pid: number,
): Promise<(ProcessTrace & { readonly parent: number; readonly state: string }) | undefined> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const command = (await readFile(`/proc/${pid}/cmdline`, "utf8")).replaceAll("\0", " ").trim().slice(0, 120);
    return { pid, startTime: fields[19] ?? "", command, parent: Number(fields[1]), state: fields[0] ?? "" };
  } catch {
    return undefined;
  }
}

/** Mount points of this namespace that lie in a folder. */
export async function mountsUnder(dir: string): Promise<string[]> {
  const lines = (await readFile("/proc/self/mountinfo", "utf8")).split("\n");
  return lines.map((line) => line.split(" ")[4] ?? "").filter((point) => point.startsWith(dir));
}

/** All control groups of the host, in every hierarchy. */
export async function controlGroups(root = "/sys/fs/cgroup", depth = 6): Promise<Set<string>> {
  const groups = new Set<string>();
  const walk = async (dir: string, left: number): Promise<void> => {
    let entries;
    try {
      entries = await readdir(dir, { withFileTypes: true });
    } catch {
      return;
    }
    for (const entry of entries) {
      if (entry.isDirectory()) {
        const path = join(dir, entry.name);
        groups.add(path);
        if (left > 0) {
          await walk(path, left - 1);
        }
      }
    }
  };
  await walk(root, depth);
  return groups;
}
