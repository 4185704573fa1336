import { closeSync, constants, type Dirent, lstatSync, openSync, readdirSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { posix } from "node:path";

import { EventType } from "@org/envd-client";

import { EnvdError, errnoOf } from "../errors.ts";
import { IN, type Inotify, type InotifyEvent, type InotifyListener } from "./inotify.ts";

/** What happened to a path below the watched directory. */
export interface WatchEvent {
  /** Relative to the watched directory, which is `.` itself. */
  readonly name: string;
  readonly type: EventType;
}

/** A watched directory, with its sub-directories or without, and what has happened there and was not taken yet. */
export interface DirectoryWatch extends Disposable {
  /** Events in their order, without those taken before. */
  take(): WatchEvent[];
  /**
   * Resolves when there are events, or when the signal fires.
   *
   * @throws EnvdError once events were lost
   */
  wait(signal: AbortSignal): Promise<void>;
  /** @throws EnvdError once events were lost: nobody can tell what happened since */
  check(): void;
  /** Takes in what has happened so far, directories that came to be included. */
  catchUp(): void;
}

/** Events that may wait for a client; at least as many as the kernel keeps. */
const MAX_EVENTS = 32_768;
/** New directories taken up in one go. */
const SLICE = 256;
/** Directories read at the same time when a watch begins. */
const PARALLEL = 16;
/** Stands for a parent of which nothing needs to be remembered. */
const ROOT = -1;
/** In the order in which the bits of one event are told. */
const TYPES: readonly (readonly [number, EventType])[] = [
  [IN.CREATE | IN.MOVED_TO, EventType.CREATE],
  [IN.MOVED_FROM | IN.MOVE_SELF, EventType.RENAME],
  [IN.ATTRIB, EventType.CHMOD],
  [IN.MODIFY, EventType.WRITE],
  [IN.DELETE | IN.DELETE_SELF, EventType.REMOVE],
];
/** What cannot be watched without harm: it vanished meanwhile, or the daemon cannot see it. */
const PASSED_OVER = new Set(["ENOENT", "ENOTDIR", "ELOOP", "EACCES", "ENAMETOOLONG"]);
/** Begins the name of a directory that has left the tree; no real name has it. */
const LEFT = "\0";

/**
 * Begins to watch a directory. Resolves when every event from now on is told.
 *
 * @throws EnvdError `internal` at the system's limits; system errors for the directory itself
 */
export async function watchDirectory(
  inotify: Inotify,
  directory: string,
  options: { readonly recursive: boolean; readonly maxEvents?: number | undefined },
): Promise<DirectoryWatch> {
  const watch = new TreeWatch(inotify, directory, options.recursive, options.maxEvents ?? MAX_EVENTS);
  try {
    await watch.begin();
    return watch;
  } catch (error) {
    watch[Symbol.dispose]();
    throw error;
  }
}

/** A directory to be taken up. */
interface Arrival {
  readonly name: string;
  /** The directory it was seen in. */
  readonly parent: number;
  /** Its name was taken for another's: only news if nothing is known of it. */
  readonly isSecondLook?: boolean;
}

class TreeWatch implements DirectoryWatch, InotifyListener {
  readonly #inotify: Inotify;
  readonly #root: string;
  readonly #recursive: boolean;
  readonly #maxEvents: number;
  /** Watched directories; the root has an empty name. */
  readonly #names = new Map<number, string>();
  /** Names found in a new directory, whose creation the kernel may tell as well. */
  readonly #announced = new Map<number, Set<string>>();
  /** Directories that have come to be and are not watched yet. */
  #fresh: Arrival[] = [];
  /** Directories some of whose sub-directories could not be found by their names, because one further up was moved. */
  readonly #incomplete = new Set<number>();
  #turn: NodeJS.Immediate | undefined;
  #events: WatchEvent[] = [];
  #failure: EnvdError | undefined;
  #wake: (() => void) | undefined;
  #closed = false;

  constructor(inotify: Inotify, root: string, recursive: boolean, maxEvents: number) {
    this.#inotify = inotify;
    this.#root = root;
    this.#recursive = recursive;
    this.#maxEvents = maxEvents;
  }

  async begin(): Promise<void> {
    // Another watcher may be about to hear of what has happened here before.
    this.#inotify.drain();
    try {
      this.#names.set(this.#inotify.add(this.#root, this, { follow: true }), "");
    } catch (error) {
      throw limitError(error) ?? error;
    }
    let names = this.#recursive ? [""] : [];
    while (names.length > 0) {
      const batch = names.slice(0, PARALLEL);
      const found = await Promise.all(batch.map((name) => this.#subdirectories(name)));
      this.check();
      if (this.#closed) return;
      names = names.slice(PARALLEL);
      for (const list of found) {
        for (const name of list) if (this.#add({ name, parent: ROOT }) !== undefined) names.push(name);
      }
      this.check();
    }
  }

  take(): WatchEvent[] {
    const events = this.#events;
    this.#events = [];
    return events;
  }

  async wait(signal: AbortSignal): Promise<void> {
    while (this.#events.length === 0 && !signal.aborted) {
      this.check();
      await new Promise<void>((resolve) => {
        const done = (): void => {
          signal.removeEventListener("abort", done);
          this.#wake = undefined;
          resolve();
        };
        this.#wake = done;
        signal.addEventListener("abort", done);
      });
    }
  }

  check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  catchUp(): void {
    do {
      this.#takeUp(Number.POSITIVE_INFINITY);
      this.#inotify.drain();
    } while (this.#fresh.length > 0);
  }

  [Symbol.dispose](): void {
    this.#closed = true;
    this.#leave();
    this.#events = [];
  }

  onEvent({ wd, mask, name: entry }: InotifyEvent): void {
    const parent = this.#names.get(wd);
    if ((mask & IN.IGNORED) !== 0) {
      this.#names.delete(wd);
      this.#incomplete.delete(wd);
      return;
    }
    if (parent === undefined || parent.startsWith(LEFT)) return;
    if (entry === "") {
      // What happens to a sub-directory is told by the watch of its parent.
      if (parent === "") this.#onRoot(mask);
      return;
    }
    const name = posix.join(parent, entry);
    const arrived = (mask & (IN.CREATE | IN.MOVED_TO)) !== 0;
    const told = this.#announced.get(wd)?.delete(entry) === true && arrived;
    if (!told) this.#emit(name, mask);
    if (!this.#recursive || (mask & IN.ISDIR) === 0) return;
    if ((mask & IN.MOVED_FROM) !== 0) this.#rename(name, `${LEFT}${name}`);
    if (arrived) {
      this.#fresh.push({ name, parent: wd });
      this.#takeUp(SLICE);
    }
  }

  onDrained(): void {
    this.#announced.clear();
    // What has left the tree and has not come back elsewhere in it is no longer watched.
    for (const [wd, name] of this.#names) if (name.startsWith(LEFT)) this.#forget(wd);
  }

  onOverflow(): void {
    this.#fail("the system's queue of events has overflowed and events were lost; watch fewer directories");
  }

  #onRoot(mask: number): void {
    if ((mask & IN.UNMOUNT) !== 0) return this.#fail("the file system of the watched directory was unmounted");
    this.#emit(".", mask);
    // From here on it has another name, or none: nothing more can be told about it.
    if ((mask & (IN.MOVE_SELF | IN.DELETE_SELF)) !== 0) this.#leave();
  }

  #emit(name: string, mask: number): void {
    for (const [bits, type] of TYPES) if ((mask & bits) !== 0) this.#push({ name, type });
  }

  #push(event: WatchEvent): void {
    if (this.#closed || this.#failure !== undefined) return;
    if (this.#events.length >= this.#maxEvents) {
      return this.#fail(`more than ${this.#maxEvents} events waited for the client and some were lost`);
    }
    this.#events.push(event);
    this.#wake?.();
  }

  #fail(why: string): void {
    this.#failure ??= new EnvdError("internal", `watching has ended: ${why}`);
    this.#leave();
    this.#wake?.();
  }

  #leave(): void {
    clearImmediate(this.#turn);
    this.#turn = undefined;
    this.#fresh = [];
    for (const wd of this.#names.keys()) this.#forget(wd);
  }

  #forget(wd: number): void {
    this.#names.delete(wd);
    this.#incomplete.delete(wd);
    this.#inotify.remove(wd, this);
  }

  /** Takes up new directories, the rest of many in later turns. */
  #takeUp(limit: number): void {
    for (let count = 0; count < limit; count += 1) {
      const next = this.#fresh.shift();
      if (next === undefined) return;
      this.#arm(next);
    }
    this.#turn ??= setImmediate(() => {
      this.#turn = undefined;
      this.#takeUp(SLICE);
      // So that what was found is compared with what the kernel had told by then, and with nothing later.
      this.#inotify.drain();
    });
  }

  /** Watches a directory first and then reads it: between the two, what comes to be there is told at least once. */
  #arm(arrival: Arrival): void {
    const { name } = arrival;
    let directory: OpenDirectory;
    try {
      directory = openDirectory(this.#path(name));
    } catch (error) {
      this.#passOver(arrival, error);
      return;
    }
    // The directory may have another name by now, and another one this name: everything goes through the descriptor.
    using opened = directory;
    const wd = this.#add(arrival, opened.path);
    if (wd === undefined) return;
    const told = new Set<string>();
    this.#announced.set(wd, told);
    for (const entry of listNow(opened.path)) {
      const path = posix.join(name, entry.name);
      told.add(entry.name);
      this.#emit(path, hasContent(entry, opened.path) ? IN.CREATE | IN.MODIFY : IN.CREATE);
      if (entry.isDirectory()) this.#fresh.push({ name: path, parent: wd });
    }
  }

  /** Undefined when there is nothing new to watch; a directory that has only changed its name keeps its watch. */
  #add(arrival: Arrival, descriptor?: string): number | undefined {
    const { name, isSecondLook = false } = arrival;
    if (this.#closed || this.#failure !== undefined) return undefined;
    try {
      const wd = this.#inotify.add(descriptor ?? this.#path(name), this, { follow: descriptor !== undefined });
      const known = this.#names.get(wd);
      if (known === undefined) {
        this.#names.set(wd, name);
        return wd;
      }
      // The root, seen again through another mount, stays the root.
      if (known !== name && known !== "" && !isSecondLook) {
        this.#rename(known, name);
        this.#completeBelow(name);
        // If it ever had that name, it was in another's place.
        if (!known.startsWith(LEFT)) this.#fresh.push({ name: known, parent: ROOT, isSecondLook: true });
      }
    } catch (error) {
      this.#passOver(arrival, error);
    }
    return undefined;
  }

  #passOver({ name, parent }: Arrival, error: unknown): void {
    const errno = errnoOf(error) ?? "failed";
    if (!PASSED_OVER.has(errno)) this.#fail(limitError(error)?.message ?? `cannot watch '${name}': ${errno}`);
    else if (this.#names.has(parent)) this.#incomplete.add(parent);
  }

  /** Changes the names of a directory and of all below it. */
  #rename(from: string, to: string): void {
    for (const [wd, name] of this.#names) {
      if (name === from) this.#names.set(wd, to);
      else if (name.startsWith(`${from}/`)) this.#names.set(wd, to + name.slice(from.length));
    }
  }

  /** Looks again for sub-directories that could not be found while a directory had another name. */
  #completeBelow(name: string): void {
    for (const wd of this.#incomplete) {
      const own = this.#names.get(wd);
      if (own !== name && own?.startsWith(`${name}/`) !== true) continue;
      this.#incomplete.delete(wd);
      for (const entry of listNow(this.#path(own))) {
        if (entry.isDirectory()) this.#fresh.push({ name: posix.join(own, entry.name), parent: wd });
      }
    }
  }

  async #subdirectories(name: string): Promise<string[]> {
    try {
      const entries = await readdir(this.#path(name), { withFileTypes: true });
      return entries.filter((entry) => entry.isDirectory()).map((entry) => posix.join(name, entry.name));
    } catch (error) {
      if (PASSED_OVER.has(errnoOf(error) ?? "")) return [];
      throw error;
    }
  }

  #path(name: string): string {
    return name === "" ? this.#root : `${this.#root}/${name}`;
  }
}

function listNow(path: string): Dirent[] {
  try {
    return readdirSync(path, { withFileTypes: true });
  } catch {
    // It has vanished again; its parent's watch tells.
    return [];
  }
}

function hasContent(entry: Dirent, parent: string): boolean {
  return entry.isFile() && (lstatSync(`${parent}/${entry.name}`, { throwIfNoEntry: false })?.size ?? 0) > 0;
}

interface OpenDirectory extends Disposable {
  /** Leads to this very directory, whatever its name. */
  readonly path: string;
}

function openDirectory(path: string): OpenDirectory {
  const fd = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  return { path: `/proc/self/fd/${fd}`, [Symbol.dispose]: () => closeSync(fd) };
}

function limitError(error: unknown): EnvdError | undefined {
  const limit = {
    ENOSPC: "directories (fs.inotify.max_user_watches)",
    EMFILE: "watchers (fs.inotify.max_user_instances)",
  }[errnoOf(error) ?? ""];
  if (limit === undefined) return undefined;
  return new EnvdError("internal", `the system watches as many ${limit} as it can`, { cause: error });
}
