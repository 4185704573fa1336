import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  copyFileSync,
  fstatSync,
  lchownSync,
  linkSync,
  lstatSync,
  lutimesSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readlinkSync,
  readSync,
  symlinkSync,
  utimesSync,
  writeSync,
  type Stats,
} from "node:fs";
import { createLibcLoader, type Libc } from "@org/envd/libc";
import { runPaced, type Steps } from "../shared/paced.ts";
import { below, ifThere, openFile, openFolder, readRight, stablePath, type TreePath } from "./tree-reading.ts";

/** Options of {@link copyTree}. */
export interface CopyTreeOptions {
  /** Owner of what is copied, by the owner it has; without it everything belongs to this process. */
  readonly owner?: ((path: string, uid: number, gid: number) => readonly [uid: number, gid: number]) | undefined;
  /** Paths below the root that are left out. */
  readonly without?: ReadonlySet<string> | undefined;
  /** Bytes of holes in all files together; more make it fail. @default 16 GiB */
  readonly maxHoles?: number | undefined;
  /** Stops between files and inside large ones. */
  readonly signal?: AbortSignal | undefined;
}

/** Folders in folders: each holds a descriptor open, and a guest decides how many there are. */
const MAX_DEPTH = 256;
const CHUNK = 1024 * 1024;
const GIB = 1024 * 1024 * 1024;
/** Holes are read, for want of a way to jump over them; a file may claim to be larger than could be read in years. */
const MAX_HOLES = 16 * GIB;
/** Unit of holes that a copy keeps. */
const HOLE = 64 * 1024;
const ZEROS: Buffer = Buffer.alloc(HOLE);
const SET_ID = 0o6000;

/**
 * Copies the files of one guest: folders, files with their holes and hard links, symbolic links as links, modes, times,
 * owners and what users note in extended attributes. Shares blocks with the original where the file system can. Sockets, pipes and devices are left out, and
 * so is what vanishes meanwhile. No link is followed, whoever makes one while the copy runs.
 *
 * @throws system errors, the signal's reason; what was copied so far remains
 */
export async function copyTree(from: string, to: string, options: CopyTreeOptions = {}): Promise<void> {
  const source = Buffer.from(from);
  const steps = new TreeCopy(options, await loadLibc()).folder(source, Buffer.from(to), "", lstatSync(source), 0);
  if (!(await runPaced(steps, options.signal))) {
    throw new Error("there is no folder to copy");
  }
}

/** Where there are no calls for extended attributes, copies have none. */
async function loadLibc(): Promise<Libc | undefined> {
  const load = createLibcLoader();
  return await load().catch(() => undefined);
}

class TreeCopy {
  readonly #options: CopyTreeOptions;
  readonly #libc: Libc | undefined;
  /** First copy of each file that has several names. */
  readonly #linked = new Map<string, TreePath>();
  #holes = 0;

  constructor(options: CopyTreeOptions, libc: Libc | undefined) {
    this.#options = options;
    this.#libc = libc;
  }

  /** Ends with `false` when the folder was gone or had become something else. */
  *folder(from: TreePath, to: TreePath, path: string, stat: Stats, depth: number): Steps<boolean> {
    if (depth > MAX_DEPTH) {
      throw new Error(`folders are nested deeper than ${MAX_DEPTH}`);
    }
    using _ = readRight(from, stat);
    const opened = ifThere(() => openFolder(from));
    if (opened === undefined) {
      return false;
    }
    using source = opened;
    mkdirSync(to, { recursive: depth === 0, mode: 0o700 });
    for (const name of source.names()) {
      yield;
      const here = below(source.path, name);
      const inside = path === "" ? name.toString("latin1") : `${path}/${name.toString("latin1")}`;
      const found = ifThere(() => lstatSync(here));
      if (found !== undefined && this.#options.without?.has(inside) !== true) {
        yield* this.#entry(here, below(to, name), inside, found, depth + 1);
      }
    }
    this.#notes(source.fd, to);
    this.#attributes(to, path, stat);
    return true;
  }

  *#entry(from: TreePath, to: TreePath, path: string, stat: Stats, depth: number): Steps<void> {
    if (stat.isDirectory()) {
      yield* this.folder(from, to, path, stat, depth);
    } else if (stat.isSymbolicLink()) {
      this.#link(from, to, path, stat);
    } else if (stat.isFile()) {
      yield* this.#file(from, to, path, stat);
    }
  }

  #link(from: TreePath, to: TreePath, path: string, stat: Stats): void {
    const target = readLink(from);
    if (target === undefined) {
      return;
    }
    symlinkSync(target, to);
    const { owner } = this.#options;
    if (owner !== undefined) {
      lchownSync(to, ...owner(path, stat.uid, stat.gid));
    }
    lutimesSync(to, timeOf(stat.atimeMs), timeOf(stat.mtimeMs));
  }

  *#file(from: TreePath, to: TreePath, path: string, stat: Stats): Steps<void> {
    const key = stat.nlink > 1 ? (ifThere(() => identity(from)) ?? "") : "";
    const first = this.#linked.get(key);
    if (first !== undefined && linked(first, to)) {
      return;
    }
    if ((yield* this.#content(from, to, path, stat)) && key !== "") {
      this.#linked.set(key, to);
    }
  }

  /** Ends with `false` when the file was gone or had become something else. */
  *#content(from: TreePath, to: TreePath, path: string, found: Stats): Steps<boolean> {
    using _ = readRight(from, found);
    const fd = ifThere(() => openFile(from));
    if (fd === undefined) {
      return false;
    }
    try {
      const stat = fstatSync(fd);
      if (!stat.isFile()) {
        return false;
      }
      const opened = stablePath(fd, from);
      const sparse = stat.size > HOLE && stat.blocks * 512 < stat.size;
      // The system's copy gives a file its set-id bits before its owner.
      const setId = (stat.mode & SET_ID) !== 0;
      if (setId || sparse || stat.size > CHUNK) {
        this.#holes += Math.max(0, stat.size - stat.blocks * 512);
        const { maxHoles = MAX_HOLES } = this.#options;
        if (this.#holes > maxHoles) {
          throw new Error(`files have holes of more than ${maxHoles / GIB} GiB`);
        }
        yield* copyLarge(fd, setId ? undefined : opened, to, stat.size);
      } else {
        copyFileSync(opened, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
      }
      this.#notes(fd, to);
      this.#attributes(to, path, found);
      return true;
    } finally {
      closeSync(fd);
    }
  }

  /** Those of the `user` namespace alone: the others carry rights. */
  #notes(from: number, to: TreePath): void {
    const notes = this.#libc === undefined ? [] : notesOf(this.#libc, from);
    if (notes.length === 0) {
      return;
    }
    // Whoever may not write a file may not write its attributes; its own mode comes afterwards.
    chmodSync(to, 0o700);
    const target = openSync(to, constants.O_RDONLY | constants.O_NOFOLLOW);
    try {
      for (const [name, value] of notes) {
        this.#libc?.setAttribute(target, name, value);
      }
    } catch (error) {
      if (!isUnsupported(error)) {
        throw error;
      }
    } finally {
      closeSync(target);
    }
  }

  /** Owner before mode: a change of the owner clears the set-id bits. */
  #attributes(to: TreePath, path: string, stat: Stats): void {
    const { owner } = this.#options;
    if (owner !== undefined) {
      chownSync(to, ...owner(path, stat.uid, stat.gid));
    }
    chmodSync(to, stat.mode & 0o7777);
    utimesSync(to, timeOf(stat.atimeMs), timeOf(stat.mtimeMs));
  }
}

function notesOf(libc: Libc, file: number): (readonly [name: string, value: Buffer])[] {
  try {
    return libc
      .listAttributes(file)
      .filter((name) => name.startsWith("user."))
      .flatMap((name) => {
        const value = libc.readAttribute(file, name);
        return value === undefined ? [] : [[name, value] as const];
      });
  } catch (error) {
    if (isUnsupported(error)) {
      return [];
    }
    throw error;
  }
}

/** One of the two file systems has no extended attributes. */
function isUnsupported(error: unknown): boolean {
  return error instanceof Error && "code" in error && (error.code === "ENOTSUP" || error.code === "ENOSYS");
}

/** As a number, a time before 1970 would be taken for now. */
function timeOf(milliseconds: number): number | Date {
  return milliseconds < 0 ? new Date(milliseconds) : milliseconds / 1000;
}

/** One text for one file, whatever its name: as plain numbers, large ones of two files may look the same. */
function identity(path: TreePath): string {
  const { dev, ino } = lstatSync(path, { bigint: true });
  return `${dev}:${ino}`;
}

/** Gives a file another name; `false` when it has as many as it can have. */
function linked(file: TreePath, name: TreePath): boolean {
  try {
    linkSync(file, name);
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EMLINK") {
      return false;
    }
    throw error;
  }
}

/** Target of a link; nothing when there is something else now. */
function readLink(path: TreePath): TreePath | undefined {
  try {
    return ifThere(() => readlinkSync(path, { encoding: "buffer" }));
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EINVAL") {
      return undefined;
    }
    throw error;
  }
}

/** Shares a file's blocks, or else copies what it had when it was looked at, leaving out blocks of zeros. */
function* copyLarge(source: number, clonable: TreePath | undefined, to: TreePath, size: number): Steps<void> {
  if (clonable !== undefined && clone(clonable, to)) {
    return;
  }
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW;
  const target = openSync(to, flags, 0o600);
  try {
    const buffer = Buffer.allocUnsafe(Math.min(CHUNK, Math.max(size, 1)));
    for (let at = 0; at < size;) {
      yield;
      const length = readSync(source, buffer, 0, Math.min(buffer.length, size - at), at);
      if (length === 0) {
        break;
      }
      writeBlocks(target, buffer.subarray(0, length), at);
      at += length;
    }
    ftruncateSync(target, size);
  } finally {
    closeSync(target);
  }
}

function clone(from: TreePath, to: TreePath): boolean {
  try {
    copyFileSync(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE_FORCE);
    return true;
  } catch {
    return false;
  }
}

/** Writes what is between holes, in as few pieces as there are. */
function writeBlocks(target: number, bytes: Buffer, position: number): void {
  let begin = 0;
  for (let at = 0; at <= bytes.length; at += HOLE) {
    const block = bytes.subarray(at, at + HOLE);
    if (block.length > 0 && !block.equals(ZEROS.subarray(0, block.length))) {
      continue;
    }
    writeAll(target, bytes.subarray(begin, at), position + begin);
    begin = at + HOLE;
  }
  writeAll(target, bytes.subarray(begin), position + begin);
}

function writeAll(target: number, bytes: Buffer, position: number): void {
  for (let at = 0; at < bytes.length;) {
    at += writeSync(target, bytes, at, bytes.length - at, position + at);
  }
}
