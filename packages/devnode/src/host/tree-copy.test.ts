import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  linkSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createLibcLoader } from "@org/envd/libc";
import { expect, test } from "vitest";
import { asUser } from "../testing/as-user.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";
import { copyTree } from "./tree-copy.ts";

const isRoot = process.getuid?.() === 0;

/** A folder with `from` and `to` in it; only the first exists. */
function folders() {
  const folder = temporaryFolder();
  const [from, to] = [join(folder.path, "from"), join(folder.path, "to")];
  mkdirSync(from);
  return { from, to, path: folder.path, [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() };
}

test("keeps content, modes, times, links and names that are no text", async () => {
  await using at = folders();
  mkdirSync(join(at.from, "a/b"), { recursive: true });
  writeFileSync(join(at.from, "a/b/run"), "content");
  chmodSync(join(at.from, "a/b/run"), 0o4751);
  utimesSync(join(at.from, "a/b/run"), 1000, 2000);
  linkSync(join(at.from, "a/b/run"), join(at.from, "again"));
  symlinkSync("b/run", join(at.from, "a/link"));
  symlinkSync("/nowhere", join(at.from, "dangling"));
  const odd = Buffer.concat([Buffer.from(`${at.from}/`), Buffer.from([0xff, 0x0a, 0xfe])]);
  writeFileSync(odd, "odd");
  chmodSync(join(at.from, "a/b"), 0o2555);
  utimesSync(join(at.from, "a/b"), 1000, 3000);
  await copyTree(at.from, at.to);
  const copy = lstatSync(join(at.to, "a/b/run"));
  expect(readFileSync(join(at.to, "a/b/run"), "utf8")).toBe("content");
  expect([copy.mode & 0o7777, copy.mtimeMs, copy.nlink]).toEqual([0o4751, 2_000_000, 2]);
  expect(lstatSync(join(at.to, "again")).ino).toBe(copy.ino);
  expect(copy.ino).not.toBe(lstatSync(join(at.from, "again")).ino);
  expect([readlinkSync(join(at.to, "a/link")), readlinkSync(join(at.to, "dangling"))]).toEqual(["b/run", "/nowhere"]);
  const folder = lstatSync(join(at.to, "a/b"));
  expect([folder.mode & 0o7777, folder.mtimeMs]).toEqual([0o2555, 3_000_000]);
  expect(readdirSync(at.to, { encoding: "buffer" }).map((name) => name.toString("hex"))).toContain("ff0afe");
});

test("keeps what users note in extended attributes, of files and folders that may not be written too", async (context) => {
  await using at = folders();
  const load = createLibcLoader();
  // Where the native library does not load (musl, other systems) metadata is refused, so there is nothing to keep.
  const libc = await load().catch(() => context.skip("no calls for extended attributes"));
  mkdirSync(join(at.from, "folder"));
  writeFileSync(join(at.from, "folder/file"), "content");
  for (const name of ["folder/file", "folder"]) {
    const fd = openSync(join(at.from, name), "r");
    try {
      libc.setAttribute(fd, "user.e2b.author", Buffer.from(`of ${name}`));
    } catch {
      // A folder for temporary files may lie on a tmpfs, which has them on newer kernels only.
      context.skip("the file system has no extended attributes");
    } finally {
      closeSync(fd);
    }
  }
  chmodSync(join(at.from, "folder/file"), 0o444);
  chmodSync(join(at.from, "folder"), 0o555);
  await copyTree(at.from, at.to);
  for (const name of ["folder/file", "folder"]) {
    const copy = join(at.to, name);
    expect(libc.listAttributes(copy)).toEqual(["user.e2b.author"]);
    expect(libc.readAttribute(copy, "user.e2b.author")?.toString()).toBe(`of ${name}`);
    expect(lstatSync(copy).mode & 0o777).toBe(name === "folder" ? 0o555 : 0o444);
  }
});

test.each([
  ["now", 1_796_124_934.25],
  ["1970", 0],
  ["before 1970", -2_000_000_000],
  ["beyond 2038", 14_000_000_000],
])("keeps a time of %s", async (_, seconds) => {
  await using at = folders();
  writeFileSync(join(at.from, "file"), "");
  symlinkSync("file", join(at.from, "link"));
  for (const name of ["file", "link"]) {
    lutimesSync(join(at.from, name), new Date(seconds * 1000), new Date(seconds * 1000));
  }
  const before = ["file", "link"].map((name) => lstatSync(join(at.from, name)).mtimeMs);
  expect(before).toEqual([seconds * 1000, seconds * 1000]);
  await copyTree(at.from, at.to);
  expect(["file", "link"].map((name) => lstatSync(join(at.to, name)).mtimeMs)).toEqual(before);
});

test("keeps the holes of a file, and the bytes between them", async () => {
  await using at = folders();
  const file = join(at.from, "sparse");
  writeFileSync(file, "head");
  truncateSync(file, 64 * 1024 * 1024);
  writeFileSync(file, Buffer.concat([readFileSync(file).subarray(0, 40 * 1024 * 1024), Buffer.from("tail")]));
  truncateSync(file, 3);
  truncateSync(file, 64 * 1024 * 1024);
  writeFileSync(join(at.from, "dense"), Buffer.alloc(9 * 1024 * 1024 + 5, "x"));
  await copyTree(at.from, at.to);
  const copy = lstatSync(join(at.to, "sparse"));
  expect([copy.size, copy.blocks < 1024]).toEqual([64 * 1024 * 1024, true]);
  for (const name of ["sparse", "dense"]) {
    expect(readFileSync(join(at.to, name)).equals(readFileSync(join(at.from, name)))).toBe(true);
  }
});

test("leaves out sockets, pipes and what it is told to, and follows no link", async () => {
  await using at = folders();
  execFileSync("/bin/sh", ["-c", 'mkfifo "$0"', join(at.from, "pipe")]);
  const server = createServer().listen(join(at.from, "socket"));
  await once(server, "listening");
  mkdirSync(join(at.path, "outside"));
  writeFileSync(join(at.path, "outside/secret"), "secret");
  symlinkSync(join(at.path, "outside"), join(at.from, "folder"));
  mkdirSync(join(at.from, "run"));
  writeFileSync(join(at.from, "run/skipped"), "x");
  writeFileSync(join(at.from, "skipped"), "x");
  await copyTree(at.from, at.to, { without: new Set(["run/skipped"]) });
  server.close();
  expect(readdirSync(at.to).sort()).toEqual(["folder", "run", "skipped"]);
  expect(readdirSync(join(at.to, "run"))).toEqual([]);
  expect(readlinkSync(join(at.to, "folder"))).toBe(join(at.path, "outside"));
});

test.runIf(process.platform === "linux")(
  "copies nothing from outside while folders and files become links and back",
  async () => {
    await using at = folders();
    mkdirSync(join(at.path, "outside"));
    writeFileSync(join(at.path, "outside/file"), "secret");
    mkdirSync(join(at.from, "folder"));
    writeFileSync(join(at.from, "folder/file"), "own");
    writeFileSync(join(at.from, "plain"), "own");
    const script = `
      const { renameSync, symlinkSync, rmSync } = require("node:fs");
      const [from, outside] = process.argv.slice(1);
      process.stdout.write("on");
      for (;;) {
        for (const [name, target] of [["folder", outside], ["plain", outside + "/file"]]) {
          renameSync(from + "/" + name, from + "/." + name);
          symlinkSync(target, from + "/" + name);
          rmSync(from + "/" + name);
          renameSync(from + "/." + name, from + "/" + name);
        }
      }`;
    const child = spawn(process.execPath, ["-e", script, at.from, join(at.path, "outside")], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    await once(child.stdout, "data");
    const seen = new Set<string>();
    for (let round = 0; round < 150; round += 1) {
      const to = join(at.path, `to-${round}`);
      await copyTree(at.from, to);
      for (const name of ["plain", ".plain", "folder/file", ".folder/file"]) {
        const whole = join(to, name);
        const isLink = [whole, join(whole, "..")].some(
          (path) => lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true,
        );
        if (!isLink && existsSync(whole)) {
          seen.add(readFileSync(whole, "utf8"));
        }
      }
    }
    child.kill("SIGKILL");
    await once(child, "close");
    expect([...seen]).toEqual(["own"]);
  },
);

test("survives files that vanish, grow and shrink meanwhile", async () => {
  await using at = folders();
  for (let index = 0; index < 300; index += 1) {
    mkdirSync(join(at.from, `d${index}`));
    writeFileSync(join(at.from, `d${index}/f`), "x".repeat(100));
    writeFileSync(join(at.from, `f${index}`), "x".repeat(100));
  }
  const copied = copyTree(at.from, at.to);
  for (let index = 299; index >= 0; index -= 1) {
    rmSync(join(at.from, `d${index}`), { recursive: true });
    rmSync(join(at.from, `f${index}`));
    if (index % 10 === 0) {
      await sleep(0);
    }
  }
  await copied;
  expect(readdirSync(at.from)).toEqual([]);
});

test("ends inside a large file, and between files, with the signal's reason", async () => {
  await using at = folders();
  // All holes: copying it whole would take long.
  writeFileSync(join(at.from, "huge"), "");
  truncateSync(join(at.from, "huge"), 15 * 2 ** 30);
  const stop = new AbortController();
  const copied = copyTree(at.from, at.to, { signal: stop.signal });
  setTimeout(() => stop.abort(new Error("stop")), 20);
  await expect(copied).rejects.toThrow("stop");
  rmSync(join(at.from, "huge"));
  writeFileSync(join(at.from, "small"), "");
  await expect(copyTree(at.from, join(at.path, "again"), { signal: stop.signal })).rejects.toThrow("stop");
});

test("refuses holes without end, in one file or in several: reading them would hold the guest for ever", async () => {
  await using at = folders();
  const MIB = 2 ** 20;
  for (const name of ["one", "two"]) {
    writeFileSync(join(at.from, name), "");
    truncateSync(join(at.from, name), 8 * MIB);
    // What several names share is read once.
    linkSync(join(at.from, name), join(at.from, `${name}-again`));
  }
  await copyTree(at.from, at.to, { maxHoles: 16 * MIB });
  const again = copyTree(at.from, join(at.path, "again"), { maxHoles: 16 * MIB - 1 });
  await expect(again).rejects.toThrow("holes of more than");
  truncateSync(join(at.from, "one"), 2 ** 43);
  await expect(copyTree(at.from, join(at.path, "third"))).rejects.toThrow("holes of more than 16 GiB");
});

test("refuses folders in folders without end, which each hold a descriptor", async () => {
  await using at = folders();
  mkdirSync(join(at.from, "d/".repeat(300)), { recursive: true });
  await expect(copyTree(at.from, at.to)).rejects.toThrow("nested deeper");
});

test("fails when the copy cannot be written, rather than leaving files out", async () => {
  await using at = folders();
  mkdirSync(join(at.from, "folder"));
  writeFileSync(join(at.from, "folder/file"), "x");
  mkdirSync(at.to);
  writeFileSync(join(at.to, "folder"), "in the way");
  await expect(copyTree(at.from, at.to)).rejects.toThrow("EEXIST");
});

test.runIf(isRoot)("gives the copy other owners and keeps set-id bits, those of links too", async () => {
  await using at = folders();
  writeFileSync(join(at.from, "tool"), "x");
  chownSync(join(at.from, "tool"), 70_000, 70_005);
  chmodSync(join(at.from, "tool"), 0o6755);
  symlinkSync("tool", join(at.from, "link"));
  const seen: string[] = [];
  await copyTree(at.from, at.to, {
    owner: (path, uid, gid) => {
      seen.push(path);
      return [uid + 10, gid + 10];
    },
  });
  const stat = lstatSync(join(at.to, "tool"));
  expect([stat.uid, stat.gid, stat.mode & 0o7777]).toEqual([70_010, 70_015, 0o6755]);
  expect(lstatSync(join(at.to, "link")).uid).toBe(10);
  expect(seen.sort()).toEqual(["", "link", "tool"]);
});

test.runIf(isRoot && process.platform === "linux")(
  "reads an own file and folder whose mode forbids it, and puts the modes back",
  async () => {
    await using at = folders();
    chmodSync(at.path, 0o777);
    mkdirSync(join(at.from, "shut"));
    writeFileSync(join(at.from, "shut/file"), "content");
    chmodSync(join(at.from, "shut/file"), 0o020);
    chmodSync(join(at.from, "shut"), 0o000);
    execFileSync("chown", ["-R", "65534:65534", at.from]);
    const main = fileURLToPath(new URL("./tree-copy.ts", import.meta.url));
    const digest = fileURLToPath(new URL("./tree-digest.ts", import.meta.url));
    const script = `
      const { copyTree } = await import(${JSON.stringify(main)});
      const { digestTree } = await import(${JSON.stringify(digest)});
      await copyTree(process.argv[1], process.argv[2]);
      console.log(await digestTree(process.argv[1]) === await digestTree(process.argv[2]));`;
    const line = [process.execPath, "--conditions=@org/source", "--input-type=module", "-e", script, at.from, at.to];
    const { words, ids } = asUser(65_534, line);
    const out = execFileSync(words[0] ?? "", words.slice(1), { ...ids, cwd: "/", encoding: "utf8" });
    expect(out).toBe("true\n");
    for (const tree of [at.from, at.to]) {
      expect(readFileSync(join(tree, "shut/file"), "utf8")).toBe("content");
      expect(lstatSync(join(tree, "shut")).mode & 0o777).toBe(0);
      expect(lstatSync(join(tree, "shut/file")).mode & 0o777).toBe(0o020);
    }
  },
);

test("a copy of a folder that is renamed away meanwhile is a copy of that folder", async () => {
  await using at = folders();
  mkdirSync(join(at.from, "one/two"), { recursive: true });
  writeFileSync(join(at.from, "one/two/file"), "x");
  const copied = copyTree(at.from, at.to);
  renameSync(join(at.from, "one"), join(at.path, "moved"));
  await copied;
  expect([[], ["one"]]).toContainEqual(readdirSync(at.to));
});
