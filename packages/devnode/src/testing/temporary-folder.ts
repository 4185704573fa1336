import { chmodSync, mkdtempSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A private folder that is removed when it is disposed of. */
export interface TemporaryFolder extends AsyncDisposable {
  readonly path: string;
}

export function temporaryFolder(mode = 0o700): TemporaryFolder {
  const path = mkdtempSync(join(tmpdir(), "devnode-test-"));
  chmodSync(path, mode);
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}
