import { execFile, spawn, type ChildProcess } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { DevNodeError } from "../errors.ts";
import { makeFolder } from "../shared/make-folder.ts";
import { CLEANUP_SCRIPT } from "./keeper-script.ts";
import { processStart } from "./proc.ts";
import { isHeld, ownLock, readLock } from "./run-lock.ts";

/** The private folder of one node: guests' trees, their sockets, and what the keeper must know. */
export interface RunFolder {
  readonly path: string;
  readonly id: string;
  /** Folder of one guest. */
  guest(id: string): string;
  /** Notes processes that must not outlive this one. */
  notePids(guestId: string, pids: readonly number[]): Promise<void>;
  /** Notes the cgroup folder, before anything is put into it. */
  noteGroup(path: string): void;
  /** Notes that guests have no pid namespace, so that what they leave is looked for by its environment. */
  noteShared(): void;
  /** Starts the keeper: a process that outlives this one and cleans up. */
  startKeeper(): void;
  /** Ends the keeper after it cleaned up. */
  close(): Promise<void>;
}

const RUNS = "runs";

/** Makes the folder of a new run below `stateDir`. @throws DevNodeError `state_folder` */
export function createRunFolder(stateDir: string, id: string): RunFolder {
  const runs = join(stateDir, RUNS);
  const path = join(runs, id);
  const draft = join(runs, `.${id}.${process.pid}`);
  const lock = ownLock();
  try {
    makeFolder(runs, 0o700);
    chmodSync(stateDir, 0o700);
    mkdirSync(join(draft, "guests"), { recursive: true, mode: 0o700 });
    writeFileSync(join(draft, "lock"), JSON.stringify(lock), { mode: 0o600 });
    // A folder without a lock would look like a leftover to a sweep, so it appears together with its lock.
    renameSync(draft, path);
  } catch (cause) {
    throw new DevNodeError("state_folder", `state folder ${stateDir} cannot be used`, { cause });
  }
  let group: string | undefined;
  let keeper: ChildProcess | undefined;
  return {
    path,
    id,
    guest: (guestId) => join(path, "guests", guestId),
    notePids: async (guestId, pids) => {
      const lines = pids.map((pid) => `${pid} ${processStart(pid) ?? ""}\n`);
      await writeFile(join(path, "guests", guestId, "pids"), lines.join(""), { mode: 0o600 });
    },
    noteGroup: (groupPath) => {
      group = groupPath;
      writeFileSync(join(path, "lock"), JSON.stringify({ ...lock, group }), { mode: 0o600 });
    },
    noteShared: () => writeFileSync(join(path, "shared"), ""),
    startKeeper: () => {
      // It waits for the end of its input, which comes when this process ends in whatever way. A signal that stops a
      // whole process group (Ctrl-C, a supervisor) must not reach it: it is a session of its own and ignores the rest.
      const script = `trap '' HUP INT TERM; ${CLEANUP_SCRIPT}\nread -r _; cleanup "$@"`;
      keeper = spawn("/bin/sh", ["-c", script, "devnode-keeper", path, ...(group === undefined ? [] : [group])], {
        stdio: ["pipe", "ignore", "ignore"],
        detached: true,
        cwd: "/",
        env: { PATH: "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin" },
      });
      keeper.on("error", () => undefined);
      keeper.stdin?.on("error", () => undefined);
      keeper.unref();
    },
    close: async () => {
      const running = keeper;
      if (running === undefined || running.exitCode !== null || running.signalCode !== null) {
        await cleanRun(path, group);
        return;
      }
      await new Promise<void>((resolve) => {
        running.once("exit", () => resolve());
        running.ref();
        running.stdin?.end();
      });
    },
  };
}

async function cleanRun(path: string, group: string | undefined): Promise<void> {
  const args = [
    "-c",
    `${CLEANUP_SCRIPT}\ncleanup "$@"`,
    "devnode-sweep",
    path,
    ...(group === undefined ? [] : [group]),
  ];
  await promisify(execFile)("/bin/sh", args, { cwd: "/" });
}

/**
 * Removes what earlier runs left in a state folder: processes, cgroups and trees. Runs whose process is alive, and runs
 * of another container that shares the folder, are left alone. Resolves with the number of runs removed.
 *
 * @throws DevNodeError `state_folder` when the folder exists and cannot be read
 */
export async function sweepState(stateDir: string): Promise<number> {
  const runs = join(stateDir, RUNS);
  let names: string[];
  try {
    names = readdirSync(runs);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") {
      return 0;
    }
    throw new DevNodeError("state_folder", `state folder ${stateDir} cannot be read`, { cause });
  }
  let swept = 0;
  for (const name of names) {
    const path = join(runs, name);
    if (name.startsWith(".")) {
      removeOldDraft(path);
      continue;
    }
    const lock = readLock(join(path, "lock"));
    if (lock !== undefined && isHeld(lock)) {
      continue;
    }
    await cleanRun(path, lock?.group);
    swept += 1;
  }
  return swept;
}

/** A draft lives for milliseconds; one that is minutes old has lost its process. */
function removeOldDraft(path: string): void {
  try {
    if (Date.now() - statSync(path).mtimeMs > 60_000) {
      rmSync(path, { recursive: true, force: true });
    }
  } catch {
    // Its owner renamed it meanwhile.
  }
}
