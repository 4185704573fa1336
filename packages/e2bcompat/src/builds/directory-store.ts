import { randomBytes } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { E2bError } from "../errors.ts";
import { uploadPath } from "./upload-key.ts";
import type { UploadKey, UploadReader } from "./upload-key.ts";

/** Options of {@link createDirectoryStore}. */
export interface DirectoryStoreOptions {
  /** Absolute path of a folder that is there. */
  readonly directory: string;
  /** Largest archive, in bytes. */
  readonly maxBytes: number;
}

/** Archives as files `<namespace>/<template>/<hash>.tar` of a folder. */
export interface DirectoryStore extends UploadReader {
  readonly kind: "directory";
  readonly maxBytes: number;
  /**
   * Stores an archive while it comes, under another name until it is complete. Nothing is left of one that breaks off.
   * Throws `too_large`, and what the source throws.
   */
  receive(key: UploadKey, source: AsyncIterable<Uint8Array>): Promise<void>;
}

const DRAFT = /\.part$/;
const FOLDER_MODE = 0o750;
/** A client that stops in the middle is given up long before: what is older was left by a process that died. */
const STALE_MS = 600_000;

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}

export function createDirectoryStore({ directory, maxBytes }: DirectoryStoreOptions): DirectoryStore {
  const fileOf = (key: UploadKey): string => join(directory, uploadPath(key));
  return {
    kind: "directory",
    maxBytes,
    async present(key) {
      try {
        return (await stat(fileOf(key))).isFile();
      } catch (error) {
        if (hasCode(error, "ENOENT") || hasCode(error, "ENOTDIR")) {
          return false;
        }
        throw new E2bError("internal", "the upload folder cannot be read", { cause: error });
      }
    },
    async open(key, { signal }) {
      try {
        const file = await open(fileOf(key), "r");
        return createReadStream("", { fd: file, signal });
      } catch (error) {
        if (hasCode(error, "ENOENT")) {
          return undefined;
        }
        throw new E2bError("internal", "the upload folder cannot be read", { cause: error });
      }
    },
    async receive(key, source) {
      const file = fileOf(key);
      const draft = `${file}.${randomBytes(6).toString("hex")}.part`;
      await mkdir(dirname(file), { recursive: true, mode: FOLDER_MODE });
      await removeStale(dirname(file));
      try {
        const handle = await open(draft, "wx", 0o640);
        try {
          let size = 0;
          for await (const chunk of source) {
            size += chunk.byteLength;
            if (size > maxBytes) {
              throw tooLarge(maxBytes);
            }
            // One chunk at a time: a client that is faster than the disk has to wait.
            await handle.writeFile(chunk);
          }
        } finally {
          await handle.close();
        }
        await rename(draft, file);
      } catch (error) {
        await rm(draft, { force: true });
        throw error;
      }
    },
  };
}

/** An archive over the limit. */
export function tooLarge(maxBytes: number): E2bError {
  return new E2bError("too_large", `the upload is larger than ${maxBytes} bytes (--e2b-build-upload-max)`);
}

/** Removes what processes that died have left of uploads. Another one may do the same at this moment. */
async function removeStale(folder: string, recursive = false): Promise<void> {
  for (const entry of await readdir(folder, { recursive, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isFile() && DRAFT.test(entry.name) && Date.now() - (await modifiedMs(path)) > STALE_MS) {
      await rm(path, { force: true });
    }
  }
}

async function modifiedMs(path: string): Promise<number> {
  try {
    return (await stat(path)).mtimeMs;
  } catch (error) {
    if (hasCode(error, "ENOENT")) {
      return Number.POSITIVE_INFINITY;
    }
    throw error;
  }
}

/**
 * Makes the folder, and removes parts of archives that a process left which died. Throws `invalid_options` when the
 * folder cannot be had.
 */
export async function prepareDirectory(directory: string): Promise<void> {
  try {
    await mkdir(directory, { recursive: true, mode: FOLDER_MODE });
    await removeStale(directory, true);
  } catch (error) {
    const reason = error instanceof Error ? error.message : "failed";
    throw new E2bError("invalid_options", `--e2b-build-dir: ${JSON.stringify(directory)} cannot be used: ${reason}`, {
      cause: error,
    });
  }
}
