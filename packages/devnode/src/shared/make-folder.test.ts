import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { makeFolder } from "./make-folder.ts";

function temporary(): string {
  const dir = mkdtempSync(join(tmpdir(), "make-folder-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  return dir;
}

test("makes every missing level and takes one that is there", () => {
  const dir = temporary();
  for (const path of [join(dir, "a b", "é", "c"), join(dir, "a b"), dir, "/"]) {
    makeFolder(path, 0o700);
    expect(statSync(path).isDirectory()).toBe(true);
  }
  expect(statSync(join(dir, "a b")).mode & 0o777).toBe(0o700);
});

test.each(["file", "file/x", "file/x/y"])("refuses %s, where a file is in the way", (tail) => {
  const dir = temporary();
  writeFileSync(join(dir, "file"), "");
  expect(() => makeFolder(join(dir, tail), 0o700)).toThrow(/EEXIST|ENOTDIR/);
});

test.skipIf(process.platform !== "linux").each(["/proc/x", "/proc/x/y/z", "/dev/null/x"])("gives up on %s", (path) => {
  expect(() => makeFolder(path, 0o700)).toThrow(/ENOENT|ENOTDIR|EACCES/);
});
