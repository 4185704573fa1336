import type { DirectoryStore } from "./directory-store.ts";
import type { S3Store } from "./s3-store.ts";

/** Where the archives of COPY steps are kept. */
export type UploadStore = DirectoryStore | S3Store;
