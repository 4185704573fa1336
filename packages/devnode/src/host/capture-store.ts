import { randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, rmdirSync, writeFileSync } from "node:fs";
import { rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DevNodeError } from "../errors.ts";
import type { DevNodeLogger } from "../logger.ts";
import { makeFolder } from "../shared/make-folder.ts";
import type { IdRange } from "./id-range.ts";
import { removeTree } from "./remove-tree.ts";
import { isHeld, ownLock, readLock } from "./run-lock.ts";

/** The files of a guest as they were at one moment. Guests start from copies of it. */
export interface Capture {
  readonly tree: string;
  /** Ids that the files' owners have on the host. */
  readonly owners: IdRange | undefined;
}

/** A capture that is being made, or that only one request needs. */
export interface Draft extends AsyncDisposable {
  /** Does not exist yet. */
  readonly tree: string;
  /** Removes it. Nothing happens once it is kept. */
  discard(): Promise<void>;
}

/** A capture that outlives its request, and its node. */
export interface KeptCapture extends Capture {
  /** What was noted with it when it was made or found: JSON. */
  readonly note: unknown;
  /** Replaces the note. */
  annotate(note: unknown): Promise<void>;
  /** Runs `step` while the files are certain to stay. */
  use<T>(step: () => Promise<T>): Promise<T>;
  /** Removes it, behind the last use. */
  remove(): Promise<void>;
}

/** The captures of one node. */
export interface CaptureStore {
  /** What an earlier node of the same state folder left. */
  readonly found: readonly KeptCapture[];
  draft(): Draft;
  /** Moves a draft whose tree is complete to where it stays. */
  keep(draft: Draft, owners: IdRange | undefined, note: unknown): Promise<KeptCapture>;
  /** Leaves the captures to the next node of this state folder. */
  close(): void;
}

/** Options of {@link openCaptureStore}. */
export interface CaptureStoreOptions {
  readonly stateDir: string;
  /** Folder on the same file system that goes away with this run, for drafts. */
  readonly drafts: string;
  readonly logger: DevNodeLogger;
}

const SHELVES = "captures";
const NOTE = "note.json";
const TREE = "tree";
/** A shelf is renamed twice within milliseconds when it changes hands; in between its name tells since when. */
const HANDOVER_MS = 60_000;

interface NoteFile {
  readonly owners: IdRange | undefined;
  readonly note: unknown;
}

/**
 * Opens the captures of one node. Each node has a shelf in the state folder that others leave alone; the shelf of a node
 * that ended is taken over by the next one that starts, whatever its address.
 *
 * @throws DevNodeError `state_folder`
 */
export function openCaptureStore(options: CaptureStoreOptions): CaptureStore {
  const { logger } = options;
  const shelves = join(options.stateDir, SHELVES);
  let shelf: string | undefined;
  let closed = false;
  const found: KeptCapture[] = [];
  try {
    mkdirSync(options.drafts, { recursive: true, mode: 0o700 });
    shelf = takeOver(shelves);
    for (const name of shelf === undefined ? [] : readdirSync(shelf)) {
      const folder = join(shelf ?? "", name);
      if (name === "lock") {
        continue;
      }
      try {
        found.push(keptCapture(folder, readNote(folder)));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === "ENOENT") {
          void removeTree(folder);
          continue;
        }
        logger.warn({ capture: folder, err: error }, "capture cannot be read and is left alone");
      }
    }
  } catch (cause) {
    throw new DevNodeError("state_folder", `captures in ${options.stateDir} cannot be used`, { cause });
  }
  return {
    found,
    draft: () => createDraft(join(options.drafts, randomBytes(8).toString("hex"))),
    keep: async (draft, owners, note) => {
      if (closed) {
        throw new DevNodeError("state_folder", "the node is closing");
      }
      const from = join(draft.tree, "..");
      await writeNote(from, { owners, note });
      const to = join((shelf ??= makeShelf(shelves)), randomBytes(8).toString("hex"));
      await rename(from, to);
      return keptCapture(to, { owners, note });
    },
    close: () => {
      closed = true;
      if (shelf !== undefined) {
        rmSync(join(shelf, "lock"), { force: true });
        removeIfEmpty(shelf);
        removeIfEmpty(shelves);
      }
    },
  };
}

function createDraft(folder: string): Draft {
  const discard = async (): Promise<void> => removeTree(folder);
  mkdirSync(folder, { mode: 0o700 });
  return { tree: join(folder, TREE), discard, [Symbol.asyncDispose]: discard };
}

function keptCapture(folder: string, { owners, note }: NoteFile): KeptCapture {
  let users = 0;
  let doomed = false;
  const { promise: removed, resolve, reject } = Promise.withResolvers<void>();
  removed.catch(() => undefined);
  // Without its note it is nothing: an end in the middle of the removal leaves no half capture behind.
  const forget = (): Promise<void> => rm(join(folder, NOTE), { force: true });
  const removeNow = (): void => {
    // Once more: a use may have written another.
    forget()
      .then(() => removeTree(folder))
      .then(resolve, reject);
  };
  let writing: Promise<unknown> = Promise.resolve();
  const use = async <T>(step: () => Promise<T>): Promise<T> => {
    users += 1;
    try {
      return await step();
    } finally {
      users -= 1;
      if (doomed && users === 0) {
        removeNow();
      }
    }
  };
  return {
    tree: join(folder, TREE),
    owners,
    note,
    annotate: (next) =>
      use(() => {
        // One after another, so that the last one stays.
        const written = writing.then(() => writeNote(folder, { owners, note: next }));
        writing = written.catch(() => undefined);
        return written;
      }),
    use,
    remove: async () => {
      if (!doomed) {
        doomed = true;
        if (users === 0) {
          removeNow();
        } else {
          await forget();
        }
      }
      await removed;
    },
  };
}

async function writeNote(folder: string, note: NoteFile): Promise<void> {
  const draft = join(folder, `.${NOTE}.${randomBytes(4).toString("hex")}`);
  await writeFile(draft, JSON.stringify(note), { mode: 0o600 });
  await rename(draft, join(folder, NOTE));
}

/** @throws system errors, SyntaxError, TypeError */
function readNote(folder: string): NoteFile {
  const value: unknown = JSON.parse(readFileSync(join(folder, NOTE), "utf8"));
  if (typeof value !== "object" || value === null || !("note" in value)) {
    throw new TypeError("the note is not one");
  }
  const owners = "owners" in value ? value.owners : undefined;
  if (owners === undefined) {
    return { owners: undefined, note: value.note };
  }
  if (
    typeof owners === "object" &&
    owners !== null &&
    "base" in owners &&
    "count" in owners &&
    typeof owners.base === "number" &&
    typeof owners.count === "number"
  ) {
    return { owners: { base: owners.base, count: owners.count }, note: value.note };
  }
  throw new TypeError("the note's owners are not ids");
}

function makeShelf(shelves: string): string {
  makeFolder(shelves, 0o700);
  const draft = handoverPath(shelves);
  mkdirSync(draft, { mode: 0o700 });
  return lockShelf(shelves, draft);
}

function handoverPath(shelves: string): string {
  return join(shelves, `.${Date.now()}.${randomBytes(6).toString("hex")}`);
}

/** A shelf without a lock would look free, so it appears together with its lock. */
function lockShelf(shelves: string, draft: string): string {
  const shelf = join(shelves, randomBytes(6).toString("hex"));
  writeFileSync(join(draft, "lock"), JSON.stringify(ownLock()), { mode: 0o600 });
  renameSync(draft, shelf);
  return shelf;
}

/** Takes a shelf whose node ended. Of several nodes that try, the one whose rename succeeds has it. */
function takeOver(shelves: string): string | undefined {
  for (const name of listNames(shelves)) {
    const since = Number(/^\.([0-9]+)\./.exec(name)?.[1] ?? 0);
    const path = join(shelves, name);
    const lock = readLock(join(path, "lock"));
    if (Date.now() - since < HANDOVER_MS || (lock !== undefined && isHeld(lock))) {
      continue;
    }
    try {
      const draft = handoverPath(shelves);
      renameSync(path, draft);
      return lockShelf(shelves, draft);
    } catch {
      // Another node was faster, or it is another user's.
    }
  }
  return undefined;
}

function listNames(folder: string): string[] {
  try {
    return readdirSync(folder).sort();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") {
      return [];
    }
    throw error;
  }
}

function removeIfEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch {
    // In use, or there are captures in it.
  }
}
