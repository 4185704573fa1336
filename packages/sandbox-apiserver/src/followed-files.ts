import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { ApiServerError } from "./api-server-error.ts";

/** Options of {@link followFiles}. */
export interface FollowFilesOptions {
  readonly files: readonly string[];
  /** Takes the contents, in the order of the files. Throws when they cannot be used; those before stay in use then. */
  readonly apply: (contents: readonly Buffer[]) => void;
  /** Told once of each change that cannot be used, and of files that can no longer be read. */
  readonly onError: (error: unknown) => void;
  /** How often the files are read again, in milliseconds. @default 10000 */
  readonly intervalMs?: number | undefined;
  /** Ends it. */
  readonly signal: AbortSignal;
}

const INTERVAL_MS = 10_000;

/**
 * Reads files that belong together, and again from time to time: secrets that are mounted are swapped by links, which
 * events of the file system miss. Resolves once they were applied.
 * @throws ApiServerError `certificates` for a file that cannot be read, and whatever `apply` throws the first time.
 */
export async function followFiles(options: FollowFilesOptions): Promise<void> {
  const { files, apply, onError, intervalMs = INTERVAL_MS, signal } = options;
  signal.throwIfAborted();
  let applied = "";
  let complaint = "";
  let looking = false;

  async function look(): Promise<void> {
    const contents = await Promise.all(files.map(read));
    const digest = digestOf(contents);
    if (signal.aborted) {
      return;
    }
    if (digest === applied) {
      complaint = "";
      return;
    }
    try {
      apply(contents);
    } catch (error) {
      // Halves of a pair that are written one after the other fit soon.
      if (complaint !== digest && applied !== "") {
        complaint = digest;
        onError(error);
      }
      if (applied === "") {
        throw error;
      }
      return;
    }
    applied = digest;
    complaint = "";
  }

  function tick(): void {
    if (looking) {
      return;
    }
    looking = true;
    look()
      .catch((error: unknown) => {
        const words = String(error);
        if (complaint !== words) {
          complaint = words;
          onError(error);
        }
      })
      .finally(() => {
        looking = false;
      });
  }

  await look();
  const timer = setInterval(tick, intervalMs);
  timer.unref();
  signal.addEventListener("abort", () => clearInterval(timer), { once: true });
}

async function read(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ApiServerError("certificates", `read ${JSON.stringify(file)}: ${reason}`, { cause });
  }
}

function digestOf(contents: readonly Buffer[]): string {
  const hash = createHash("sha256");
  for (const content of contents) {
    hash.update(`${content.length}:`).update(content);
  }
  return hash.digest("hex");
}
