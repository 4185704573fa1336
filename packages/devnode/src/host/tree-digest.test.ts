import {
  chmodSync,
  chownSync,
  cpSync,
  linkSync,
  mkdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../testing/temporary-folder.ts";
import { digestTree } from "./tree-digest.ts";

function makeTree(root: string): void {
  mkdirSync(join(root, "dir/inner"), { recursive: true });
  writeFileSync(join(root, "dir/file"), "abc");
  writeFileSync(join(root, "dir/other"), "def");
  symlinkSync("file", join(root, "dir/link"));
  chmodSync(root, 0o755);
  chmodSync(join(root, "dir"), 0o755);
  chmodSync(join(root, "dir/inner"), 0o755);
  chmodSync(join(root, "dir/file"), 0o644);
  chmodSync(join(root, "dir/other"), 0o644);
}

const owners = { base: 0, count: 65_536 };

test("is sha256: and hex, and the same for the same content whatever its times and inodes", async () => {
  await using folder = temporaryFolder();
  makeTree(join(folder.path, "a"));
  makeTree(join(folder.path, "b"));
  utimesSync(join(folder.path, "b/dir/file"), 1, 1);
  rmSync(join(folder.path, "b/dir/other"));
  writeFileSync(join(folder.path, "b/source"), "def", { mode: 0o644 });
  linkSync(join(folder.path, "b/source"), join(folder.path, "b/dir/other"));
  rmSync(join(folder.path, "b/source"));
  const digest = await digestTree(join(folder.path, "a"));
  expect(digest).toMatch(/^sha256:[0-9a-f]{64}$/);
  expect(await digestTree(join(folder.path, "b"))).toBe(digest);
});

const changes: [name: string, change: (root: string) => void][] = [
  ["a byte", (root) => writeFileSync(join(root, "dir/file"), "abd")],
  ["a length", (root) => writeFileSync(join(root, "dir/file"), "abcd")],
  [
    "a byte that moves to the next file",
    (root) => {
      writeFileSync(join(root, "dir/file"), "ab");
      writeFileSync(join(root, "dir/other"), "cdef");
    },
  ],
  [
    "a name",
    (root) => {
      rmSync(join(root, "dir/file"));
      writeFileSync(join(root, "dir/file2"), "abc", { mode: 0o644 });
    },
  ],
  ["a mode", (root) => chmodSync(join(root, "dir/file"), 0o755)],
  ["a folder's mode", (root) => chmodSync(join(root, "dir/inner"), 0o1777)],
  ["an empty folder more", (root) => mkdirSync(join(root, "dir/empty"))],
  [
    "a link's target",
    (root) => {
      rmSync(join(root, "dir/link"));
      symlinkSync("other", join(root, "dir/link"));
    },
  ],
  [
    "a file instead of a link",
    (root) => {
      rmSync(join(root, "dir/link"));
      writeFileSync(join(root, "dir/link"), "file");
    },
  ],
  ...(process.getuid?.() === 0
    ? [
        ["an owner", (root: string) => chownSync(join(root, "dir/file"), 1000, 1000)] as [
          string,
          (root: string) => void,
        ],
      ]
    : []),
];

test.each(changes)("differs for %s", async (_name, change) => {
  await using folder = temporaryFolder();
  const [one, two] = [join(folder.path, "one"), join(folder.path, "two")];
  makeTree(one);
  cpSync(one, two, { recursive: true, verbatimSymlinks: true });
  const before = await digestTree(two, { owners });
  expect(before).toBe(await digestTree(one, { owners }));
  change(two);
  expect(await digestTree(two, { owners })).not.toBe(before);
});

test.runIf(process.getuid?.() === 0)("counts owners as the guest sees them", async () => {
  await using folder = temporaryFolder();
  const digests: string[] = [];
  for (const base of [70_000, 140_000]) {
    const root = join(folder.path, String(base));
    makeTree(root);
    chownSync(join(root, "dir/file"), base + 1000, base + 1000);
    digests.push(await digestTree(root, { owners: { base, count: 65_536 } }));
  }
  expect(digests[0]).toBe(digests[1]);
});
