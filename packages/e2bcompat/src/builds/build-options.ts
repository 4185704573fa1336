import { isAbsolute } from "node:path";
import { E2bError } from "../errors.ts";
import { createDirectoryStore } from "./directory-store.ts";
import type { DirectoryStoreOptions } from "./directory-store.ts";
import { createS3Store } from "./s3-store.ts";
import type { S3StoreOptions } from "./s3-store.ts";
import type { UploadStore } from "./upload-store.ts";

/** Where the archives of COPY steps go; `maxBytes` is 1 GiB unless it is told. */
export type UploadOptions =
  | (Pick<DirectoryStoreOptions, "directory"> & { readonly maxBytes?: number | undefined })
  | S3StoreOptions;

/** What template builds may use. */
export interface BuildOptions {
  /** How many run at once. @default 2 */
  readonly parallel?: number | undefined;
  /** How long one may take. @default 1800 */
  readonly timeoutSeconds?: number | undefined;
  /** How many lines of its log are kept. @default 10000 */
  readonly logLines?: number | undefined;
  /** Without it COPY steps are refused. */
  readonly uploads?: UploadOptions | undefined;
}

/** {@link BuildOptions}, checked and completed once. */
export interface BuildSettings {
  readonly parallel: number;
  readonly timeoutSeconds: number;
  readonly logLines: number;
  readonly uploads: UploadStore | undefined;
}

export const DEFAULT_PARALLEL = 2;
export const DEFAULT_BUILD_SECONDS = 1800;
export const DEFAULT_LOG_LINES = 10_000;
export const DEFAULT_UPLOAD_BYTES = 1_073_741_824;

function counting(what: string, value: number, most = 2_147_483_647): number {
  if (!Number.isInteger(value) || value < 1 || value > most) {
    throw new E2bError("invalid_options", `${what}: want a whole number from 1 to ${most}`);
  }
  return value;
}

function storeOf(uploads: UploadOptions): UploadStore {
  if ("bucket" in uploads) {
    return createS3Store(uploads);
  }
  const { directory, maxBytes = DEFAULT_UPLOAD_BYTES } = uploads;
  if (!isAbsolute(directory)) {
    throw new E2bError("invalid_options", "the upload directory is an absolute path");
  }
  counting("the largest upload", maxBytes, Number.MAX_SAFE_INTEGER);
  return createDirectoryStore({ directory, maxBytes });
}

/** Throws `invalid_options`. */
export function resolveBuildOptions(options: BuildOptions): BuildSettings {
  const { parallel = DEFAULT_PARALLEL, timeoutSeconds = DEFAULT_BUILD_SECONDS, logLines = DEFAULT_LOG_LINES } = options;
  return {
    parallel: counting("parallel builds", parallel),
    // Timers wait no longer.
    timeoutSeconds: counting("the time of a build", timeoutSeconds, 2_147_483),
    logLines: counting("the lines of a build's log", logLines),
    uploads: options.uploads === undefined ? undefined : storeOf(options.uploads),
  };
}
