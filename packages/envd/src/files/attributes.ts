import { isUtf8 } from "node:buffer";

import { errnoOf } from "../errors.ts";
import type { Libc, LibcLoader } from "../system/libc.ts";

/** What users note about their files: extended attributes under a prefix of their own. */
export interface FileAttributes {
  /** By key; undefined when there are none, or none can be had. Links are followed. */
  read(path: string): Promise<Record<string, string> | undefined>;
  /**
   * Makes `metadata` the only one of an open file. False when the guest or the file system has none.
   *
   * @throws system errors, ENOSPC when it does not fit
   */
  replace(fd: number, metadata: ReadonlyMap<string, string>): Promise<boolean>;
}

const PREFIX = "user.e2b.";
/** "Not here", as opposed to "not this". */
const UNSUPPORTED = new Set(["ENOTSUP", "ENOSYS", "EPERM"]);

export function createFileAttributes(load: LibcLoader): FileAttributes {
  /** Where the library is missing, files have no metadata. */
  const libc = (): Promise<Libc | undefined> => load().catch(() => undefined);
  return {
    async read(path) {
      return readAll(await libc(), path);
    },
    async replace(fd, metadata) {
      const system = await libc();
      if (system === undefined) return false;
      try {
        // In one go, so that uploads to the same file do not mix theirs.
        for (const name of namesOf(system, fd)) if (!metadata.has(name)) system.removeAttribute(fd, PREFIX + name);
        for (const [key, value] of metadata) system.setAttribute(fd, PREFIX + key, Buffer.from(value));
        return true;
      } catch (error) {
        if (UNSUPPORTED.has(errnoOf(error) ?? "")) return false;
        throw error;
      }
    },
  };
}

function namesOf(libc: Libc, file: string | number): string[] {
  const names = libc.listAttributes(file);
  return names.filter((name) => name.startsWith(PREFIX)).map((name) => name.slice(PREFIX.length));
}

function readAll(libc: Libc | undefined, path: string): Record<string, string> | undefined {
  if (libc === undefined) return undefined;
  let metadata: Record<string, string> | undefined;
  try {
    for (const key of namesOf(libc, path)) {
      const value = libc.readAttribute(path, PREFIX + key);
      // Text is all that the answer can carry.
      if (value === undefined || !isUtf8(value) || key.includes("�")) continue;
      metadata ??= Object.create(null) as Record<string, string>;
      metadata[key] = value.toString("utf8");
    }
  } catch {
    // The file is gone, or its file system has no attributes: what was read so far is what there is.
  }
  return metadata;
}
