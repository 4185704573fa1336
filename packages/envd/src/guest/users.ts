import { readFileSync, statSync } from "node:fs";

/** One user of the guest. */
export interface GuestUser {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
  readonly home: string;
  /** Supplementary groups without the primary one. */
  readonly groups: readonly number[];
}

/** The guest's users and groups at one moment. */
export interface UserSnapshot {
  find(name: string): GuestUser | undefined;
  userName(uid: number): string | undefined;
  groupName(gid: number): string | undefined;
}

/** The guest's user database; reads its files again when they have changed. */
export interface UserDatabase {
  current(): UserSnapshot;
}

/** Reads `passwd` and `group` files in their usual format. Missing files count as empty, malformed lines are skipped. */
export function createUserDatabase(files: { passwdFile: string; groupFile: string }): UserDatabase {
  let stamp = "";
  let snapshot = parseUsers("", "");
  return {
    current() {
      const now = `${stampOf(files.passwdFile)} ${stampOf(files.groupFile)}`;
      if (now !== stamp) {
        snapshot = parseUsers(textOf(files.passwdFile), textOf(files.groupFile));
        stamp = now;
      }
      return snapshot;
    },
  };
}

/** Parses the text of a `passwd` and a `group` file; the first line of a name or number wins, as in libc. */
export function parseUsers(passwd: string, group: string): UserSnapshot {
  const groupNames = new Map<number, string>();
  const memberships = new Map<string, Set<number>>();
  for (const [name, , gidText, members] of rows(group, 4)) {
    const gid = idOf(gidText);
    if (name === undefined || name === "" || gid === undefined) continue;
    if (!groupNames.has(gid)) groupNames.set(gid, name);
    for (const member of (members ?? "").split(",")) {
      if (member === "") continue;
      const groups = memberships.get(member) ?? new Set();
      memberships.set(member, groups.add(gid));
    }
  }
  const users = new Map<string, GuestUser>();
  const userNames = new Map<number, string>();
  for (const [name, , uidText, gidText, , home] of rows(passwd, 6)) {
    const uid = idOf(uidText);
    const gid = idOf(gidText);
    if (name === undefined || name === "" || uid === undefined || gid === undefined) continue;
    if (!userNames.has(uid)) userNames.set(uid, name);
    if (users.has(name)) continue;
    const groups = [...(memberships.get(name) ?? [])].filter((id) => id !== gid).sort((a, b) => a - b);
    users.set(name, { name, uid, gid, home: home === undefined || home === "" ? "/" : home, groups });
  }
  return {
    find: (name) => users.get(name),
    userName: (uid) => userNames.get(uid),
    groupName: (gid) => groupNames.get(gid),
  };
}

function rows(text: string, fields: number): string[][] {
  return text
    .split("\n")
    .filter((line) => !line.startsWith("#"))
    .map((line) => line.trimEnd().split(":"))
    .filter((row) => row.length >= fields);
}

function idOf(text: string | undefined): number | undefined {
  if (text === undefined || !/^\d{1,10}$/.test(text)) return undefined;
  const id = Number(text);
  return id <= 0xffff_ffff ? id : undefined;
}

function stampOf(file: string): string {
  const stats = statSync(file, { bigint: true, throwIfNoEntry: false });
  return stats === undefined ? "" : `${stats.ino}:${stats.mtimeNs}:${stats.size}`;
}

function textOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
