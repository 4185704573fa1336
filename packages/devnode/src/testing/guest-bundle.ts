import { existsSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "tsup";
import { guestBundle } from "../guest/bundle-options.ts";

const packageFolder = fileURLToPath(new URL("../..", import.meta.url));

/** What the bundle is made of. */
const SOURCES = ["src/guest", "src/shared", "../envd/src", "../envd-client/src"];

function newest(path: string): number {
  const stat = statSync(path);
  if (!stat.isDirectory()) {
    return path.endsWith(".test.ts") ? 0 : stat.mtimeMs;
  }
  return Math.max(0, ...readdirSync(path).map((name) => newest(join(path, name))));
}

/** Builds `dist/guest.js` when it is missing or older than its sources, so that tests run on a fresh tree. */
export async function ensureGuestBundle(): Promise<void> {
  const bundle = join(packageFolder, "dist/guest.js");
  const changed = Math.max(...SOURCES.map((path) => newest(join(packageFolder, path))));
  if (existsSync(bundle) && statSync(bundle).mtimeMs > changed) {
    return;
  }
  // Test files run side by side: each builds into its own folder and the last rename wins with the same content.
  const draft = mkdtempSync(join(packageFolder, "dist/.guest-"));
  try {
    await build({
      ...guestBundle,
      config: false,
      silent: true,
      outDir: draft,
      entry: { guest: join(packageFolder, "src/guest/main.ts") },
      tsconfig: join(packageFolder, "tsconfig.json"),
    });
    renameSync(join(draft, "guest.js"), bundle);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}
