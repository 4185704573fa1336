import { chmodSync, closeSync, constants, openSync, readdirSync, type Stats } from "node:fs";

/** Names of files are bytes: a guest may use any but `/` and NUL. */
export type TreePath = Buffer;

const SLASH = Buffer.from("/");

/** One name below a folder. */
export function below(folder: TreePath, name: TreePath): TreePath {
  return Buffer.concat([folder, SLASH, name]);
}

/** What `read` answers; nothing when what it reads is gone or has become something else: somebody writes to the tree. */
export function ifThere<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "ENOENT" || code === "ELOOP" || code === "ENOTDIR") {
      return undefined;
    }
    throw error;
  }
}

/** A folder that stays the same one while it is read, whatever its names become. */
export interface OpenFolder extends Disposable {
  /** The folder for calls that take a path. It leads to the open folder and not to what has its name now. */
  readonly path: TreePath;
  readonly fd: number;
  names(): TreePath[];
}

/** Opens a folder without following a link in its place. @throws system errors, `ENOTDIR` for a link */
export function openFolder(path: TreePath): OpenFolder {
  const fd = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  const stable = stablePath(fd, path);
  return {
    path: stable,
    fd,
    names: () => distinct(readdirSync(stable, { encoding: "buffer" })),
    [Symbol.dispose]: () => closeSync(fd),
  };
}

/** A listing has a name twice when it is made while somebody renames. */
function distinct(names: readonly TreePath[]): TreePath[] {
  return [...new Map(names.map((name) => [name.toString("latin1"), name])).values()];
}

/** Opens a file without following a link in its place, and without waiting for a pipe's other end. */
export function openFile(path: TreePath): number {
  return openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
}

/** A path that leads to what is open; elsewhere than on Linux the path by which it was opened. */
export function stablePath(fd: number, path: TreePath): TreePath {
  return process.platform === "linux" ? Buffer.from(`/proc/self/fd/${fd}`) : path;
}

/** Takes the right to read an own file or folder whose mode forbids it, and gives it back. Root needs no such right. */
export function readRight(path: TreePath, stat: Stats): Disposable {
  const needed = stat.isDirectory() ? 0o500 : 0o400;
  const user = process.geteuid?.();
  const mode = stat.mode & 0o7777;
  const lacks = user !== 0 && user === stat.uid && (mode & needed) !== needed;
  // What is gone by now is found out by who wants to read it.
  if (lacks) {
    ifThere(() => chmodSync(path, mode | needed));
  }
  return {
    [Symbol.dispose]: () => {
      if (lacks) {
        ifThere(() => chmodSync(path, mode));
      }
    },
  };
}
