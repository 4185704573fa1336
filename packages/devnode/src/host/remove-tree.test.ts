import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../testing/temporary-folder.ts";
import { removeTree } from "./remove-tree.ts";

/** Folders in folders, deeper than any path may be long. */
const DEEPER = `for (let depth = 0; depth < 120; depth += 1) {
  require("node:fs").mkdirSync("d".repeat(100));
  process.chdir("d".repeat(100));
}`;

test.each([
  ["nothing", () => undefined],
  ["a shut folder", (path: string) => chmodSync(join(path, "shut"), 0o000)],
  [
    "folders deeper than a path is long",
    (path: string) => execFileSync(process.execPath, ["-e", DEEPER], { cwd: path }),
  ],
  ["names that look like options", (path: string) => writeFileSync(join(path, "-rf"), "")],
])("removes a tree with %s in it, and nothing behind its links", async (_, put) => {
  await using folder = temporaryFolder();
  const tree = join(folder.path, "- tree $(x) '");
  mkdirSync(join(tree, "shut/inner"), { recursive: true });
  mkdirSync(join(folder.path, "outside"));
  symlinkSync(join(folder.path, "outside"), join(tree, "link"));
  put(tree);
  await removeTree(tree);
  expect([existsSync(tree), existsSync(join(folder.path, "outside"))]).toEqual([false, true]);
});

test("does not mind that there is nothing", async () => {
  await using folder = temporaryFolder();
  await removeTree(join(folder.path, "missing"));
});
