import { readFileSync } from "node:fs";

/** The release of this package; `undefined` where its manifest is not beside it, as in a bundle. */
export function packageVersion(): string | undefined {
  try {
    const manifest: unknown = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
    return typeof manifest === "object" && manifest !== null && "version" in manifest
      ? String(manifest.version)
      : undefined;
  } catch {
    return undefined;
  }
}
