import { constants } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import { dirname } from "node:path";

import { EnvdError, errnoOf } from "../errors.ts";
import { makeDirectories } from "../filesystem/make-parents.ts";
import type { Guest, ResolvedPath } from "../guest/guest.ts";
import type { GuestUser } from "../guest/users.ts";

/** Small bodies are written at once, so that a watcher sees one write. */
const WRITE_BYTES = 256 * 1024;
const NEW_FILE_MODE = 0o666;
const DISK_FULL = new Set(["ENOSPC", "EDQUOT"]);

/**
 * Writes a file from a stream, with its parents, and gives it to the user. An existing file keeps its mode. When the
 * body breaks off the file holds what had come. Its metadata is `metadata` alone; false when it can have none.
 *
 * @throws EnvdError; with status 507 when the disk is full
 */
export async function writeFile(
  at: ResolvedPath,
  body: AsyncIterable<Buffer>,
  user: GuestUser,
  { identity, attributes }: Pick<Guest, "identity" | "attributes">,
  metadata: ReadonlyMap<string, string>,
): Promise<boolean> {
  let file: FileHandle | undefined;
  let hasMetadata: boolean;
  try {
    await makeDirectories(dirname(at.host), user, identity);
    file = await openTarget(at);
    await identity.own(file, user);
    hasMetadata = await attributes.replace(file.fd, metadata);
  } catch (error) {
    await file?.close();
    throw writeError(error, at.guest);
  }
  try {
    await copy(body, file, at.guest);
  } finally {
    await file.close();
  }
  return hasMetadata;
}

async function openTarget({ guest, host }: ResolvedPath): Promise<FileHandle> {
  const existing = await stat(host).catch(() => undefined);
  if (existing?.isDirectory() === true) throw new EnvdError("invalid_argument", `path '${guest}' is a directory`);
  if (existing !== undefined && !existing.isFile()) {
    throw new EnvdError("invalid_argument", `path '${guest}' is not a regular file`);
  }
  return open(host, constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NONBLOCK, NEW_FILE_MODE);
}

async function copy(body: AsyncIterable<Buffer>, file: FileHandle, path: string): Promise<void> {
  let waiting: Buffer[] = [];
  let length = 0;
  const flush = async (): Promise<void> => {
    const chunks = waiting;
    waiting = [];
    length = 0;
    try {
      for (let left = chunks; left.length > 0;) left = await writeSome(file, left);
    } catch (error) {
      throw writeError(error, path);
    }
  };
  try {
    for await (const chunk of body) {
      waiting.push(chunk);
      length += chunk.length;
      if (length >= WRITE_BYTES) await flush();
    }
  } catch (error) {
    if (error instanceof EnvdError) throw error;
    const why = error instanceof Error ? error.message : "it broke off";
    throw new EnvdError("invalid_argument", `cannot read the body for '${path}': ${why}`, { cause: error });
  }
  if (length > 0) await flush();
}

/** Writes what the file takes; returns the rest. */
async function writeSome(file: FileHandle, chunks: Buffer[]): Promise<Buffer[]> {
  let { bytesWritten } = await file.writev(chunks);
  const left: Buffer[] = [];
  for (const chunk of chunks) {
    if (bytesWritten >= chunk.length) bytesWritten -= chunk.length;
    else {
      left.push(chunk.subarray(bytesWritten));
      bytesWritten = 0;
    }
  }
  return left;
}

function writeError(error: unknown, path: string): EnvdError {
  if (error instanceof EnvdError) return error;
  const errno = errnoOf(error) ?? "failed";
  const status = DISK_FULL.has(errno) ? 507 : 500;
  const why = status === 507 ? "no space left on the disk" : errno;
  return new EnvdError("internal", `cannot write '${path}': ${why}`, { status, cause: error });
}
