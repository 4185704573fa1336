import type { BigIntStats } from "node:fs";
import { lstat, realpath, stat } from "node:fs/promises";
import { posix } from "node:path";

import type { MessageInitShape } from "@bufbuild/protobuf";
import { type EntryInfoSchema, FileType } from "@org/envd-client";

import type { Guest, ResolvedPath } from "../guest/guest.ts";
import type { UserSnapshot } from "../guest/users.ts";
import { permissionText } from "./permissions.ts";

/** What clients are told about a file. */
export type Entry = MessageInitShape<typeof EntryInfoSchema>;

const NANOS_PER_SECOND = 1_000_000_000n;
const PERMISSION_BITS = 0o777n;

/**
 * Describes a path without following it; only type, mode and metadata of a symbolic link are those of its target.
 *
 * @throws the error of `lstat`
 */
export async function describeEntry(guest: Guest, at: ResolvedPath): Promise<Entry> {
  const own = await lstat(at.host, { bigint: true });
  const metadata = await guest.attributes.read(at.host);
  const entry = {
    ...entryOf(guest, guest.users.current(), at.guest, own),
    ...(metadata !== undefined && { metadata }),
  };
  if (!own.isSymbolicLink()) return entry;
  const [target, resolved] = await Promise.all([
    stat(at.host, { bigint: true }).catch(() => undefined),
    realpath(at.host).catch(() => undefined),
  ]);
  return {
    ...entry,
    type: target === undefined ? FileType.UNSPECIFIED : typeOf(target),
    mode: target === undefined ? 0 : Number(target.mode & PERMISSION_BITS),
    symlinkTarget: resolved === undefined ? at.guest : guest.paths.toGuest(resolved),
  };
}

function entryOf(guest: Guest, users: UserSnapshot, path: string, stats: BigIntStats): Entry {
  return {
    name: posix.basename(path),
    type: typeOf(stats),
    path,
    size: stats.size,
    mode: Number(stats.mode & PERMISSION_BITS),
    permissions: permissionText(Number(stats.mode)),
    owner: ownerName(guest, users, Number(stats.uid)),
    group: groupName(guest, users, Number(stats.gid)),
    ...(stats.mtimeNs === 0n ? {} : { modifiedTime: timestampOf(stats.mtimeNs) }),
  };
}

function typeOf(stats: BigIntStats): FileType {
  if (stats.isFile()) return FileType.FILE;
  return stats.isDirectory() ? FileType.DIRECTORY : FileType.UNSPECIFIED;
}

function timestampOf(nanoseconds: bigint): { seconds: bigint; nanos: number } {
  const nanos = ((nanoseconds % NANOS_PER_SECOND) + NANOS_PER_SECOND) % NANOS_PER_SECOND;
  return { seconds: (nanoseconds - nanos) / NANOS_PER_SECOND, nanos: Number(nanos) };
}

/** A guest with a single id, which its passwd file may not know, shows its default user instead of a number. */
function ownerName({ identity, state }: Guest, users: UserSnapshot, uid: number): string {
  return users.userName(uid) ?? (uid === identity.daemonUid ? state.defaultUser : String(uid));
}

function groupName({ identity, state }: Guest, users: UserSnapshot, gid: number): string {
  const name = users.groupName(gid);
  if (name !== undefined || gid !== identity.daemonGid) return name ?? String(gid);
  const primary = users.find(state.defaultUser)?.gid;
  return (primary === undefined ? undefined : users.groupName(primary)) ?? state.defaultUser;
}
