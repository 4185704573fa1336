import { execFile } from "node:child_process";
import { accessSync, constants, existsSync, mkdirSync, readFileSync, rmdirSync } from "node:fs";
import { readFile, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { setTimeout as sleep } from "node:timers/promises";
import { readMountTable, type MountEntry } from "./mount-table.ts";

/** Which freezer a group has. */
export type CgroupLayout = "v2" | "v1";

/** A cgroup of its own for one guest. */
export interface GuestGroup {
  /** Folder in the cgroup file system. */
  readonly path: string;
  readonly layout: CgroupLayout;
  /** Stops every process and waits until the kernel says that all of them have stopped. */
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  /** Kills everything inside, frozen or not. */
  kill(): Promise<void>;
  remove(): Promise<void>;
}

/** Makes the groups of one run. All of them are below one folder, which the keeper can clean up alone. */
export interface GroupMaker {
  readonly layout: CgroupLayout;
  /** The run's folder. */
  readonly path: string;
  create(name: string): GuestGroup;
  /** Removes the run's folder; groups must be gone. */
  close(): void;
}

/** How long a freeze may take before it counts as failed. */
const FREEZE_TIMEOUT_MS = 10_000;

interface Hierarchy {
  readonly layout: CgroupLayout;
  readonly folder: string;
}

/** Folders where this process could make groups: its own place in the v2 tree, then in the v1 freezer's. */
export function findHierarchies(mounts: readonly MountEntry[], membership: string): Hierarchy[] {
  const found: Hierarchy[] = [];
  const memberOf = new Map<string, string>();
  for (const line of membership.split("\n")) {
    const match = /^\d+:([^:]*):(.*)$/.exec(line);
    if (match?.[1] !== undefined && match[2] !== undefined) {
      for (const controller of match[1].split(",")) {
        memberOf.set(controller, match[2]);
      }
    }
  }
  const v2 = mounts.find((mount) => mount.type === "cgroup2");
  const own = memberOf.get("");
  if (v2 !== undefined && own !== undefined) {
    found.push({ layout: "v2", folder: join(v2.path, own) });
  }
  const v1 = mounts.find((mount) => mount.type === "cgroup" && mount.superOptions.includes("freezer"));
  const ownV1 = memberOf.get("freezer");
  if (v1 !== undefined && ownV1 !== undefined) {
    found.push({ layout: "v1", folder: join(v1.path, ownV1) });
  }
  return found;
}

/**
 * The first hierarchy in which this process may really make a group, move a process into it and freeze it.
 * `undefined` where none works; guests are then stopped by signals.
 */
export async function createGroupMaker(
  name: string,
  layouts: readonly CgroupLayout[],
): Promise<GroupMaker | undefined> {
  let membership: string;
  try {
    membership = readFileSync("/proc/self/cgroup", "utf8");
  } catch {
    return undefined;
  }
  for (const { layout, folder } of findHierarchies(readMountTable(), membership)) {
    if (!layouts.includes(layout)) {
      continue;
    }
    const path = join(folder, name);
    try {
      mkdirSync(path);
    } catch {
      continue;
    }
    const maker: GroupMaker = {
      layout,
      path,
      create: (child) => createGroup(join(path, child), layout),
      close: () => rmdirSync(path),
    };
    if (await works(maker)) {
      return maker;
    }
    removeQuietly(path);
  }
  return undefined;
}

function removeQuietly(path: string): void {
  try {
    rmdirSync(path);
  } catch {
    // A folder that is busy or gone is left to the keeper.
  }
}

async function works(maker: GroupMaker): Promise<boolean> {
  let group: GuestGroup;
  try {
    group = maker.create("probe");
  } catch {
    return false;
  }
  try {
    accessSync(join(group.path, maker.layout === "v2" ? "cgroup.freeze" : "freezer.state"), constants.W_OK);
    await promisify(execFile)("/bin/sh", ["-c", 'echo 0 > "$1/cgroup.procs"', "sh", group.path]);
    await group.freeze();
    await group.thaw();
    return true;
  } catch {
    return false;
  } finally {
    await group.remove().catch(() => undefined);
  }
}

function createGroup(path: string, layout: CgroupLayout): GuestGroup {
  mkdirSync(path);
  const file = (name: string): string => join(path, name);
  const group: GuestGroup = {
    path,
    layout,
    freeze: () => (layout === "v2" ? freezeV2(path) : freezeV1(path)),
    thaw: () => (layout === "v2" ? writeFile(file("cgroup.freeze"), "0") : writeFile(file("freezer.state"), "THAWED")),
    kill: async () => {
      if (layout === "v2" && existsSync(file("cgroup.kill"))) {
        await writeFile(file("cgroup.kill"), "1");
        return;
      }
      // Read and signalled in one go: after a wait, an id that was listed may be somebody else's.
      for (const word of readFileSync(file("cgroup.procs"), "utf8").split("\n")) {
        const pid = Number(word);
        if (pid > 0) {
          tryKill(pid);
        }
      }
      // A task frozen by v1 dies when it is thawed, not before.
      await group.thaw();
    },
    remove: async () => {
      const end = Date.now() + 5000;
      for (;;) {
        try {
          await rmdir(path);
          return;
        } catch (error) {
          const { code } = error as NodeJS.ErrnoException;
          if (code === "ENOENT") {
            return;
          }
          if (code !== "EBUSY" || Date.now() > end) {
            throw error;
          }
          await sleep(5);
        }
      }
    },
  };
  return group;
}

function tryKill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // Gone already.
  }
}

async function freezeV2(path: string): Promise<void> {
  await writeFile(join(path, "cgroup.freeze"), "1");
  await waitFor(async () => (await readFile(join(path, "cgroup.events"), "utf8")).includes("frozen 1"));
}

async function freezeV1(path: string): Promise<void> {
  await waitFor(async () => {
    await writeFile(join(path, "freezer.state"), "FROZEN");
    return (await readFile(join(path, "freezer.state"), "utf8")).trim() === "FROZEN";
  });
}

async function waitFor(done: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + FREEZE_TIMEOUT_MS;
  while (!(await done())) {
    if (Date.now() > end) {
      throw new Error("the cgroup did not freeze in time");
    }
    await sleep(2);
  }
}
