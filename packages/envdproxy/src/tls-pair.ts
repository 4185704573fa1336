import { readFile, stat } from "node:fs/promises";
import { createSecureContext } from "node:tls";
import { EnvdProxyError } from "./errors.ts";

/** Where a certificate chain and its key lie. */
export interface TlsFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

/** A certificate chain with its key, in PEM. The key is a secret. */
export interface TlsPair {
  readonly cert: Buffer;
  readonly key: Buffer;
}

async function read(what: string, file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new EnvdProxyError("tls_files", `read TLS ${what} ${JSON.stringify(file)}: ${reason}`, { cause: error });
  }
}

/** Reads a pair and checks that its halves belong together. Rejects with `tls_files`. */
export async function loadTlsPair(files: TlsFiles): Promise<TlsPair> {
  const [cert, key] = await Promise.all([read("certificate", files.certFile), read("private key", files.keyFile)]);
  try {
    createSecureContext({ cert, key });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new EnvdProxyError(
      "tls_files",
      `TLS certificate ${JSON.stringify(files.certFile)} and private key ${JSON.stringify(files.keyFile)}: ${reason}`,
      { cause: error },
    );
  }
  return { cert, key };
}

async function fingerprint(file: string): Promise<string> {
  const { mtimeMs, size, ino } = await stat(file);
  return `${ino}:${size}:${mtimeMs}`;
}

/** Options of {@link watchTlsPair}. */
export interface WatchOptions {
  /** @default 10000 */
  readonly intervalMs?: number;
  readonly onPair: (pair: TlsPair) => void;
  /** A changed pair that can not be used; the one before stays. */
  readonly onError: (error: unknown) => void;
}

/**
 * Reports each new pair. Looks at the files from time to time, since secrets that are mounted are swapped by links,
 * which file events miss. Returns the function that ends it.
 */
export function watchTlsPair(files: TlsFiles, options: WatchOptions): () => void {
  let known: string | undefined;
  let looking = false;
  let ended = false;

  async function look(): Promise<void> {
    const seen = (await Promise.all([fingerprint(files.certFile), fingerprint(files.keyFile)])).join("|");
    if (seen === known) {
      return;
    }
    const first = known === undefined;
    known = seen;
    if (!first) {
      const pair = await loadTlsPair(files);
      if (!ended) {
        options.onPair(pair);
      }
    }
  }
  function tick(): void {
    if (looking) {
      return;
    }
    looking = true;
    look()
      .catch((error: unknown) => {
        if (!ended) {
          options.onError(error);
        }
      })
      .finally(() => {
        looking = false;
      });
  }

  const timer = setInterval(tick, options.intervalMs ?? 10_000);
  timer.unref();
  tick();
  return () => {
    ended = true;
    clearInterval(timer);
  };
}
