import { readFileSync } from "node:fs";
import { processScope, processStart } from "./proc.ts";

/** Who owns a folder of the state folder, so that others leave it alone while that process lives. */
export interface RunLock {
  readonly pid: number;
  readonly start: string | undefined;
  readonly scope: string;
  /** The run's cgroup folder. */
  readonly group?: string | undefined;
}

/** Lock of this process. */
export function ownLock(): RunLock {
  return { pid: process.pid, start: processStart(process.pid), scope: processScope() };
}

/** Reads a lock file; `undefined` for none and for one that says nothing. */
export function readLock(file: string): RunLock | undefined {
  try {
    const lock: unknown = JSON.parse(readFileSync(file, "utf8"));
    if (typeof lock === "object" && lock !== null && "pid" in lock && typeof lock.pid === "number") {
      const scope = "scope" in lock && typeof lock.scope === "string" ? lock.scope : "";
      const start = "start" in lock && typeof lock.start === "string" ? lock.start : undefined;
      const group = "group" in lock && typeof lock.group === "string" ? lock.group : undefined;
      return { pid: lock.pid, start, scope, group };
    }
  } catch {
    return undefined;
  }
  return undefined;
}

/** True while the lock's process may live: it does, or it is one of another container that this one cannot see. */
export function isHeld(lock: RunLock): boolean {
  const scope = processScope();
  if (lock.scope.split(" ")[0] !== scope.split(" ")[0]) {
    return false;
  }
  if (lock.scope !== scope) {
    return true;
  }
  if (lock.start !== undefined) {
    return processStart(lock.pid) === lock.start;
  }
  try {
    process.kill(lock.pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
