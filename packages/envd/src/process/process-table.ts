import type { ProcessConfig, ProcessSelector } from "@org/envd-client";

import { EnvdError } from "../errors.ts";
import type { Child } from "./child.ts";
import { endNotice, type ProcessNotice } from "./event-frames.ts";
import type { ExitStatus } from "./exit-status.ts";
import type { FanOut } from "./fan-out.ts";

/** A command that runs. */
export interface RunningProcess {
  readonly child: Child;
  readonly output: FanOut;
  readonly config: ProcessConfig;
  readonly tag: string | undefined;
}

/** A command that has ended and whose end can still be fetched. */
export interface EndedProcess {
  readonly pid: number;
  readonly end: ProcessNotice;
  /** What it wrote while nobody followed it. */
  readonly output: FanOut;
}

/** The commands of the guest by pid and tag. */
export interface ProcessTable extends Disposable {
  add(process: RunningProcess): void;
  /** Takes the process off the list and keeps its end for a while. */
  end(process: RunningProcess, status: ExitStatus): void;
  running(): Iterable<RunningProcess>;
  /** @throws EnvdError `not_found`, or `unimplemented` without a selector */
  find(selector: ProcessSelector | undefined): RunningProcess;
  findEnded(selector: ProcessSelector | undefined): EndedProcess | undefined;
}

export function createProcessTable(exitRetentionMs: number): ProcessTable {
  const byPid = new Map<number, RunningProcess>();
  const byTag = new Map<string, RunningProcess>();
  const ended = new Map<number | string, EndedProcess>();
  const timers = new Set<NodeJS.Timeout>();

  function forget(key: number | string, entry: EndedProcess): void {
    if (ended.get(key) === entry) ended.delete(key);
  }

  return {
    add(process) {
      byPid.set(process.child.pid, process);
      ended.delete(process.child.pid);
      if (process.tag === undefined) return;
      byTag.set(process.tag, process);
      ended.delete(process.tag);
    },
    end(process, status) {
      const { pid } = process.child;
      const { tag } = process;
      const entry: EndedProcess = { pid, end: endNotice(status), output: process.output };
      if (byPid.get(pid) === process) {
        byPid.delete(pid);
        ended.set(pid, entry);
      }
      if (tag !== undefined && byTag.get(tag) === process) {
        byTag.delete(tag);
        ended.set(tag, entry);
      }
      const timer = setTimeout(() => {
        timers.delete(timer);
        forget(pid, entry);
        if (tag !== undefined) forget(tag, entry);
      }, exitRetentionMs).unref();
      timers.add(timer);
    },
    running: () => byPid.values(),
    find(selector) {
      const { selector: by } = selector ?? {};
      switch (by?.case) {
        case "pid":
          return byPid.get(by.value) ?? notFound(`process with pid ${by.value} not found`);
        case "tag":
          return byTag.get(by.value) ?? notFound(`process with tag '${by.value}' not found`);
        case undefined:
        default:
          throw new EnvdError("unimplemented", "a process selector must name a pid or a tag");
      }
    },
    findEnded(selector) {
      const value = selector?.selector.value;
      return value === undefined ? undefined : ended.get(value);
    },
    [Symbol.dispose]() {
      for (const timer of timers) clearTimeout(timer);
      timers.clear();
      ended.clear();
    },
  };
}

function notFound(message: string): never {
  throw new EnvdError("not_found", message);
}
