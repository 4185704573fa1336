import { readFileSync, statSync } from "node:fs";
import { type FileHandle, lchown } from "node:fs/promises";
import { dirname } from "node:path";

import { errnoOf } from "../errors.ts";
import type { GuestUser } from "./users.ts";

/** What the daemon can do about users in its guest. */
export interface Identity {
  readonly daemonUid: number;
  readonly daemonGid: number;
  /** Whether a command of this user needs, and can get, other ids than the daemon's. */
  canBecome(user: GuestUser): boolean;
  /** Whether `user` may enter `directory`; only asked for users the daemon becomes. */
  canEnter(user: GuestUser, directory: string): boolean;
  /**
   * Gives a file to the user: by its path only that very file, were it a link by now. Where ids cannot be changed the file stays with the daemon; who watches it sees a change of
   * owner all the same, since clients count on it.
   */
  own(target: string | FileHandle, user: GuestUser): Promise<void>;
}

/** Errors that say "not in this guest", as opposed to "not this file". */
const CANNOT_CHOWN = new Set(["EPERM", "EINVAL", "ENOSYS", "ENOTSUP", "EOPNOTSUPP"]);

export function createIdentity(mode: "auto" | "never"): Identity {
  const daemonUid = process.getuid?.() ?? 0;
  const daemonGid = process.getgid?.() ?? 0;
  const isRoot = mode === "auto" && daemonUid === 0;
  const uids = isRoot ? readIdMap("/proc/self/uid_map") : [];
  const gids = isRoot ? readIdMap("/proc/self/gid_map") : [];
  const setgroupsDenied = isRoot && readProc("/proc/self/setgroups")?.trim() === "deny";
  return {
    daemonUid,
    daemonGid,
    canBecome: (user) =>
      isRoot &&
      !setgroupsDenied &&
      (user.uid !== daemonUid || user.gid !== daemonGid) &&
      isMapped(uids, user.uid) &&
      isMapped(gids, user.gid),
    canEnter(user, directory) {
      if (user.uid === 0) return true;
      for (let at = directory; ; at = dirname(at)) {
        const stats = statSync(at);
        const bit =
          stats.uid === user.uid ? 0o100 : user.gid === stats.gid || user.groups.includes(stats.gid) ? 0o010 : 0o001;
        if ((stats.mode & bit) === 0) return false;
        if (at === dirname(at)) return true;
      }
    },
    async own(target, user) {
      try {
        // Between its making and this a directory may have been swapped for a link to what the daemon alone may give away.
        if (typeof target === "string") await lchown(target, user.uid, user.gid);
        else await target.chown(user.uid, user.gid);
      } catch (error) {
        if (!CANNOT_CHOWN.has(errnoOf(error) ?? "")) throw error;
        if (typeof target !== "string") await keepOwner(target);
      }
    },
  };
}

async function keepOwner(file: FileHandle): Promise<void> {
  const { uid, gid } = await file.stat();
  // Another's file may not even be given to its owner.
  await file.chown(uid, gid).catch(() => undefined);
}

/** Ranges `[first, count]` of the ids that exist in this user namespace; undefined where the kernel has no such map. */
function readIdMap(file: string): (readonly [number, number])[] | undefined {
  const text = readProc(file);
  return text
    ?.split("\n")
    .map((line) => line.trim().split(/\s+/))
    .filter((row) => row.length === 3)
    .map((row) => [Number(row[0]), Number(row[2])] as const);
}

function isMapped(ranges: (readonly [number, number])[] | undefined, id: number): boolean {
  return ranges === undefined || ranges.some(([first, count]) => id >= first && id < first + count);
}

function readProc(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}
