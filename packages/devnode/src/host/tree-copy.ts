import { constants, type Stats } from "node:fs";
import {
  chmod,
  chown,
  copyFile,
  lchown,
  link,
  lstat,
  lutimes,
  mkdir,
  open,
  readlink,
  symlink,
  utimes,
  type FileHandle,
} from "node:fs/promises";
import {
  below,
  isVanished,
  openFile,
  openFolder,
  readable,
  stablePath,
  type OpenFolder,
  type TreePath,
} from "./tree-reading.ts";

/** Options of {@link copyTree}. */
export interface CopyTreeOptions {
  /** Owner of what is copied, by the owner it has; without it everything belongs to this process. */
  readonly owner?: ((path: string, uid: number, gid: number) => readonly [uid: number, gid: number]) | undefined;
  /** Paths below the root that are left out. */
  readonly without?: ReadonlySet<string> | undefined;
  /** Stops between files and inside large ones. */
  readonly signal?: AbortSignal | undefined;
}

/** Folders in folders: each holds a descriptor open, and a guest decides how many there are. */
const MAX_DEPTH = 256;
/** Files that are copied side by side. */
const PARALLEL = 8;
const CHUNK = 1024 * 1024;
/** Unit of holes that a copy keeps. */
const HOLE = 64 * 1024;
const ZEROS: Buffer = Buffer.alloc(HOLE);
/** Larger files are copied in steps, so that an abort need not wait for them. */
const STEPWISE_ABOVE = 8 * CHUNK;
const SET_ID = 0o6000;

/**
 * Copies the files of one guest: folders, files with their holes and hard links, symbolic links as links, modes, times
 * and owners. Shares blocks with the original where the file system can. Sockets, pipes and devices are left out, and
 * so is what vanishes meanwhile. No link is followed, whoever makes one while the copy runs.
 *
 * @throws system errors, the signal's reason; what was copied so far remains
 */
export async function copyTree(from: string, to: string, options: CopyTreeOptions = {}): Promise<void> {
  const source = Buffer.from(from);
  if (!(await new TreeCopy(options).folder(source, Buffer.from(to), "", await lstat(source), 0))) {
    throw new Error("there is no folder to copy");
  }
}

class TreeCopy {
  readonly #options: CopyTreeOptions;
  /** First copy of each file that has several names. */
  readonly #linked = new Map<string, Promise<TreePath | undefined>>();

  constructor(options: CopyTreeOptions) {
    this.#options = options;
  }

  /** Resolves `false` when the folder was gone or had become something else. */
  async folder(from: TreePath, to: TreePath, path: string, stat: Stats, depth: number): Promise<boolean> {
    if (depth > MAX_DEPTH) {
      throw new Error(`folders are nested deeper than ${MAX_DEPTH}`);
    }
    return await readable(from, stat, async () => {
      const source = await unlessVanished(openFolder(from));
      if (source === undefined) {
        return false;
      }
      await using _ = source;
      await mkdir(to, { recursive: depth === 0, mode: 0o700 });
      await this.#entries(source, to, path, depth);
      await this.#attributes(to, path, stat);
      return true;
    });
  }

  async #entries(source: OpenFolder, to: TreePath, path: string, depth: number): Promise<void> {
    const folders: { readonly name: TreePath; readonly stat: Stats }[] = [];
    await eachOf(await source.names(), async (name) => {
      this.#options.signal?.throwIfAborted();
      const here = below(source.path, name);
      const found = await unlessVanished(lstat(here));
      if (found === undefined || this.#options.without?.has(pathBelow(path, name)) === true) {
        return;
      }
      if (found.isDirectory()) {
        folders.push({ name, stat: found });
      } else if (found.isSymbolicLink()) {
        await this.#link(here, below(to, name), pathBelow(path, name), found);
      } else if (found.isFile()) {
        await this.#file(here, below(to, name), pathBelow(path, name), found);
      }
    });
    for (const { name, stat } of folders) {
      await this.folder(below(source.path, name), below(to, name), pathBelow(path, name), stat, depth + 1);
    }
  }

  async #link(from: TreePath, to: TreePath, path: string, stat: Stats): Promise<void> {
    const target = await unlessVanished(readLink(from));
    if (target === undefined) {
      return;
    }
    await symlink(target, to);
    const { owner } = this.#options;
    if (owner !== undefined) {
      await lchown(to, ...owner(path, stat.uid, stat.gid));
    }
    await lutimes(to, stat.atimeMs / 1000, stat.mtimeMs / 1000);
  }

  async #file(from: TreePath, to: TreePath, path: string, stat: Stats): Promise<void> {
    if (stat.nlink < 2) {
      await this.#content(from, to, path, stat);
      return;
    }
    const key = `${stat.dev}:${stat.ino}`;
    const first = this.#linked.get(key);
    if (first === undefined) {
      const copied = this.#content(from, to, path, stat);
      this.#linked.set(key, copied);
      await copied;
      return;
    }
    const original = await first;
    try {
      if (original !== undefined) {
        await link(original, to);
        return;
      }
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EMLINK")) {
        throw error;
      }
    }
    await this.#content(from, to, path, stat);
  }

  /** Resolves with the copy, or with nothing when the file was gone or had become something else. */
  async #content(from: TreePath, to: TreePath, path: string, found: Stats): Promise<TreePath | undefined> {
    return await readable(from, found, async () => {
      const source = await unlessVanished(openFile(from));
      if (source === undefined) {
        return undefined;
      }
      try {
        const stat = await source.stat();
        if (!stat.isFile()) {
          return undefined;
        }
        const opened = stablePath(source, from);
        const sparse = stat.blocks * 512 < stat.size;
        // The system's copy gives a file its set-id bits before its owner.
        if ((stat.mode & SET_ID) !== 0 || sparse || stat.size > STEPWISE_ABOVE) {
          if ((stat.mode & SET_ID) !== 0 || !(await clone(opened, to))) {
            await copyInSteps(source, to, stat.size, this.#options.signal);
          }
        } else {
          await copyFile(opened, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
        }
        await this.#attributes(to, path, found);
        return to;
      } finally {
        await source.close();
      }
    });
  }

  /** Owner before mode: a change of the owner clears the set-id bits. */
  async #attributes(to: TreePath, path: string, stat: Stats): Promise<void> {
    const { owner } = this.#options;
    if (owner !== undefined) {
      await chown(to, ...owner(path, stat.uid, stat.gid));
    }
    await chmod(to, stat.mode & 0o7777);
    await utimes(to, stat.atimeMs / 1000, stat.mtimeMs / 1000);
  }
}

/** Target of a link; nothing when there is something else now. */
async function readLink(path: TreePath): Promise<TreePath | undefined> {
  try {
    return await readlink(path, { encoding: "buffer" });
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EINVAL") {
      return undefined;
    }
    throw error;
  }
}

/** Shares a file's blocks; `false` where the file system cannot. */
async function clone(from: TreePath, to: TreePath): Promise<boolean> {
  try {
    await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE_FORCE);
    return true;
  } catch {
    return false;
  }
}

/** Copies what a file had when it was looked at, leaving out blocks of zeros. */
async function copyInSteps(
  source: FileHandle,
  to: TreePath,
  size: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  const target = await open(
    to,
    constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW,
    0o600,
  );
  try {
    const buffer = Buffer.allocUnsafe(Math.min(CHUNK, Math.max(size, 1)));
    for (let at = 0; at < size;) {
      signal?.throwIfAborted();
      const { bytesRead } = await source.read(buffer, 0, Math.min(buffer.length, size - at), at);
      if (bytesRead === 0) {
        break;
      }
      for (let begin = 0; begin < bytesRead; begin += HOLE) {
        const block = buffer.subarray(begin, Math.min(begin + HOLE, bytesRead));
        if (!block.equals(ZEROS.subarray(0, block.length))) {
          await writeAll(target, block, at + begin);
        }
      }
      at += bytesRead;
    }
    await target.truncate(size);
  } finally {
    await target.close();
  }
}

async function writeAll(target: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let at = 0; at < bytes.length;) {
    at += (await target.write(bytes, at, bytes.length - at, position + at)).bytesWritten;
  }
}

async function unlessVanished<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (isVanished(error)) {
      return undefined;
    }
    throw error;
  }
}

function pathBelow(folder: string, name: TreePath): string {
  const text = name.toString("latin1");
  return folder === "" ? text : `${folder}/${text}`;
}

/** Runs `step` for every item, some side by side. The first failure ends it, once the steps that run are done. */
async function eachOf<T>(items: readonly T[], step: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values();
  let failed = false;
  const worker = async (): Promise<void> => {
    for (const item of queue) {
      if (failed) {
        return;
      }
      try {
        await step(item);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  const results = await Promise.allSettled(Array.from({ length: Math.min(PARALLEL, items.length) }, worker));
  const failure = results.find((result) => result.status === "rejected");
  if (failure !== undefined) {
    throw failure.reason;
  }
}
