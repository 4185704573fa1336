import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Makes a folder and those above it, one level at a time. The recursive `mkdir` of Node never returns where a folder that
 * exists takes no new ones with `ENOENT`, as `/proc` does.
 * @throws the error of `mkdir`
 */
export function makeFolder(path: string, mode: number): void {
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    if (hasCode(error, "EEXIST") && statSync(path).isDirectory()) {
      return;
    }
    const above = dirname(path);
    if (!hasCode(error, "ENOENT") || above === path) {
      throw error;
    }
    makeFolder(above, mode);
    makeLast(path, mode);
  }
}

/** The folder above is there now; somebody else may have been quicker. */
function makeLast(path: string, mode: number): void {
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    if (!hasCode(error, "EEXIST") || !statSync(path).isDirectory()) {
      throw error;
    }
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
