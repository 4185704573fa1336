import type { ChildProcess } from "node:child_process";
import { readlinkSync, writeFileSync } from "node:fs";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import type { GuestGroup } from "./cgroup-group.ts";
import type { IdRange } from "./id-range.ts";
import type { Isolation } from "./launch.ts";
import { childrenOf, processesWith, processStart, processTree } from "./proc.ts";
import type { RunFolder } from "./run-folder.ts";

/** A cold machine takes its time; a guest that needs longer hangs. */
const START_TIMEOUT_MS = 30_000;

/** The processes of one guest, seen from the host. */
export interface GuestProcess {
  readonly pid: number;
  readonly ended: Promise<string>;
  /** Resolves with the daemon's port once the agent says that it listens. */
  ready(range: IdRange | undefined): Promise<number>;
  /** Everything in the guest, parents first. */
  members(): readonly number[];
  kill(): Promise<void>;
}

const NAMESPACES = ["mnt", "pid", "net", "ipc", "uts", "user"];

/** Watches a launched child; its first notes for the keeper are written at once. */
export function superviseChild(
  child: ChildProcess,
  run: Pick<RunFolder, "notePids">,
  id: string,
  group: GuestGroup | undefined,
  isolation: Isolation,
): GuestProcess {
  const pid = child.pid ?? 0;
  let tail = "";
  child.stderr?.setEncoding("utf8");
  child.stderr?.on("data", (text: string) => {
    tail = (tail + text).slice(-2000);
  });
  child.stderr?.on("error", () => undefined);
  child.stdin?.on("error", () => undefined);
  const ended = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, signal) => resolve(signal === null ? `exit status ${code}` : `signal ${signal}`));
  });
  const noted = pid > 0 ? run.notePids(id, [pid]) : Promise.resolve();
  noted.catch(() => undefined);
  const failWith = async (reject: (error: Error) => void): Promise<void> => {
    const reason = await ended;
    // The last words on stderr may still be on their way.
    await sleep(20);
    reject(new Error(`${reason}: ${tail.trim().split("\n").at(-1) ?? ""}`));
  };
  // Once it was waited for, its id belongs to whoever gets it next.
  const isOurs = (): boolean => pid > 0 && child.exitCode === null && child.signalCode === null;
  const members = (): readonly number[] => {
    const tree = isOurs() ? processTree(pid) : [];
    if (isolation !== "process" || process.platform !== "linux") {
      return tree;
    }
    // Without a pid namespace a process can leave the tree, but hardly its environment.
    return [...new Set([...tree, ...processesWith(`E2B_SANDBOX_ID=${id}`)])];
  };
  return {
    pid,
    ended,
    members,
    ready: async (range) => {
      const status = child.stdio[4] as Readable;
      status.setEncoding("utf8");
      status.on("error", () => undefined);
      let timer: NodeJS.Timeout | undefined;
      const port = new Promise<number>((resolve, reject) => {
        timer = setTimeout(() => reject(new Error("the guest did not get ready in time")), START_TIMEOUT_MS);
        let text = "";
        status.on("data", (chunk: string) => {
          text += chunk;
          for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n")) {
            const line = text.slice(0, at);
            text = text.slice(at + 1);
            const match = /^ready ([0-9]{1,5})$/.exec(line);
            if (line === "map" && range !== undefined) {
              try {
                const map = `0 ${range.base} ${range.count}\n`;
                const target = innermost(pid);
                writeFileSync(`/proc/${target}/uid_map`, map);
                writeFileSync(`/proc/${target}/gid_map`, map);
                child.stdin?.write("\n");
              } catch (cause) {
                reject(new Error("ids could not be mapped", { cause }));
              }
            } else if (match !== null) {
              resolve(Number(match[1]));
            }
          }
        });
        void failWith(reject);
      });
      try {
        const value = await port;
        await noted;
        const pids = processTree(pid);
        await run.notePids(id, pids);
        if (isolation !== "process") {
          proveApart(pids.at(-1) ?? pid);
        }
        return value;
      } finally {
        clearTimeout(timer);
        status.destroy();
      }
    },
    kill: async () => {
      if (pid === 0) {
        return;
      }
      // All at once: after a wait, an id that was listed may be somebody else's.
      const marks = members().map((one) => ({ pid: one, start: processStart(one) }));
      for (const one of marks) {
        killQuietly(one.pid);
      }
      // Without namespaces a child may have left the tree but not the session.
      if (isOurs()) {
        killQuietly(-pid);
      }
      await group?.kill().catch(() => undefined);
      await ended;
      const isLeft = (one: (typeof marks)[number]): boolean =>
        one.start !== undefined && processStart(one.pid) === one.start;
      for (let round = 0; round < 500 && marks.some(isLeft); round += 1) {
        await sleep(2);
      }
    },
  };
}

/** Last of the chain of processes that a launch is made of. */
function innermost(pid: number): number {
  let at = pid;
  for (let next = childrenOf(at)[0]; next !== undefined; next = childrenOf(at)[0]) {
    at = next;
  }
  return at;
}

/** A started guest shares no namespace with us, or its isolation is not what it claims to be. */
function proveApart(pid: number): void {
  const shared = NAMESPACES.filter((name) => {
    try {
      return readlinkSync(`/proc/${pid}/ns/${name}`) === readlinkSync(`/proc/self/ns/${name}`);
    } catch {
      return false;
    }
  });
  if (shared.length > 0) {
    throw new Error(`the guest shares the host's ${shared.join(", ")} namespace`);
  }
}

function killQuietly(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // Gone.
  }
}
