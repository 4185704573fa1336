import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { asUser } from "../testing/as-user.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";
import { digestTree } from "./tree-digest.ts";
import { createTrees, type Trees } from "./trees.ts";

function rig() {
  const folder = temporaryFolder();
  const trees = createTrees();
  const [from, to] = [join(folder.path, "from"), join(folder.path, "to")];
  mkdirSync(from);
  const copy = (options?: Parameters<Trees["copy"]>[1]): Promise<void> =>
    trees.copy({ from, to, owners: undefined, without: new Set(["left-out"]) }, options);
  return {
    trees,
    from,
    to,
    copy,
    /** A file that takes seconds to copy. */
    slow: () => {
      writeFileSync(join(from, "slow"), "");
      truncateSync(join(from, "slow"), 15 * 2 ** 30);
    },
    [Symbol.asyncDispose]: async () => {
      await trees.close();
      await folder[Symbol.asyncDispose]();
    },
  };
}

test("copies and digests as the functions do, side by side", async () => {
  await using at = rig();
  writeFileSync(join(at.from, "file"), "content");
  const digests = Promise.all([1, 2, 3].map(() => at.trees.digest({ tree: at.from, owners: undefined })));
  await at.copy();
  expect(readFileSync(join(at.to, "file"), "utf8")).toBe("content");
  const expected = await digestTree(at.from, {});
  expect(await digests).toEqual([expected, expected, expected]);
  expect(await at.trees.digest({ tree: at.to, owners: undefined })).toBe(expected);
});

test("rejects with the system's error and goes on", async () => {
  await using at = rig();
  const missing = at.trees.digest({ tree: join(at.from, "missing"), owners: undefined });
  await expect(missing).rejects.toMatchObject({ code: "ENOENT" });
  await at.copy();
  await expect(at.trees.digest({ tree: at.to, owners: undefined })).resolves.toMatch(/^sha256:/);
});

test("an abort ends one job, with its reason, and others go on", async () => {
  await using at = rig();
  at.slow();
  const stop = new AbortController();
  const reason = new Error("stop");
  const copied = at.copy({ signal: stop.signal });
  copied.catch(() => undefined);
  const other = { tree: import.meta.dirname, owners: undefined };
  await expect(at.trees.digest(other)).resolves.toMatch(/^sha256:/);
  stop.abort(reason);
  await expect(copied).rejects.toBe(reason);
  await expect(at.copy({ signal: stop.signal })).rejects.toBe(reason);
});

test("a close ends what runs, and nothing can be started afterwards", async () => {
  await using at = rig();
  at.slow();
  const copied = expect(at.copy()).rejects.toThrow("ended");
  await at.trees.close();
  await copied;
  await expect(at.copy()).rejects.toThrow("closing");
});

test.runIf(process.getuid?.() === 0 && process.platform === "linux")(
  "readers of one tree do not see each other's borrowed rights",
  async () => {
    await using folder = temporaryFolder(0o777);
    const script = `
      const { createTrees } = await import(${JSON.stringify(join(import.meta.dirname, "trees.ts"))});
      const { chmodSync, lstatSync, mkdirSync, writeFileSync } = await import("node:fs");
      const root = process.argv[1];
      for (let index = 0; index < 60; index += 1) {
        mkdirSync(root + "/from/" + index + "/shut", { recursive: true });
        writeFileSync(root + "/from/" + index + "/shut/file", Buffer.alloc(2 ** 21, 1));
        chmodSync(root + "/from/" + index + "/shut", 0);
      }
      const trees = createTrees();
      const copies = [1, 2, 3, 4].map((copy) => root + "/copy" + copy);
      await Promise.all(copies.map((to) => trees.copy({ from: root + "/from", to, owners: undefined })));
      await trees.close();
      const modes = [root + "/from", ...copies].flatMap((at) =>
        Array.from({ length: 60 }, (_, index) => lstatSync(at + "/" + index + "/shut").mode & 0o777));
      console.log(modes.length, [...new Set(modes)].join());`;
    const line = [process.execPath, "--conditions=@org/source", "--input-type=module", "-e", script, folder.path];
    const { words, ids } = asUser(65_534, line);
    const out = execFileSync(words[0] ?? "", words.slice(1), { ...ids, cwd: "/", encoding: "utf8" });
    expect(out).toBe("300 0\n");
  },
  60_000,
);
