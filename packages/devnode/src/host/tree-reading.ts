import { constants, type Stats } from "node:fs";
import { chmod, open, readdir, type FileHandle } from "node:fs/promises";

/** Names of files are bytes: a guest may use any but `/` and NUL. */
export type TreePath = Buffer;

const SLASH = Buffer.from("/");

/** One name below a folder. */
export function below(folder: TreePath, name: TreePath): TreePath {
  return Buffer.concat([folder, SLASH, name]);
}

/** What is at a path vanished, or is no longer what it was: the files of a tree that somebody writes to. */
export function isVanished(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return code === "ENOENT" || code === "ELOOP" || code === "ENOTDIR";
}

/** A folder that stays the same one while it is read, whatever its names become. */
export interface OpenFolder extends AsyncDisposable {
  /** The folder for calls that take a path. It leads to the open folder and not to what has its name now. */
  readonly path: TreePath;
  names(): Promise<TreePath[]>;
}

/** Opens a folder without following a link in its place. @throws system errors, `ENOTDIR` for a link */
export async function openFolder(path: TreePath): Promise<OpenFolder> {
  const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  const stable = stablePath(handle, path);
  return {
    path: stable,
    names: async () => distinct(await readdir(stable, { encoding: "buffer" })),
    [Symbol.asyncDispose]: () => handle.close(),
  };
}

/** A listing has a name twice when it is made while somebody renames. */
function distinct(names: readonly TreePath[]): TreePath[] {
  return [...new Map(names.map((name) => [name.toString("latin1"), name])).values()];
}

/** Opens a file without following a link in its place, and without waiting for a pipe's other end. */
export async function openFile(path: TreePath): Promise<FileHandle> {
  return await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
}

/** A path that leads to what is open; elsewhere than on Linux the path by which it was opened. */
export function stablePath(handle: FileHandle, path: TreePath): TreePath {
  return process.platform === "linux" ? Buffer.from(`/proc/self/fd/${handle.fd}`) : path;
}

/**
 * Runs `step` with the right to read an own file or folder whose mode forbids it, and puts the mode back. Root needs no
 * such right.
 */
export async function readable<T>(path: TreePath, stat: Stats, step: () => Promise<T>): Promise<T> {
  const needed = stat.isDirectory() ? 0o500 : 0o400;
  const user = process.geteuid?.();
  if (user === 0 || user !== stat.uid || (stat.mode & needed) === needed) {
    return await step();
  }
  const mode = stat.mode & 0o7777;
  // What is gone by now is the step's to find out.
  await chmod(path, mode | needed).catch(() => undefined);
  try {
    return await step();
  } finally {
    await chmod(path, mode).catch(() => undefined);
  }
}
