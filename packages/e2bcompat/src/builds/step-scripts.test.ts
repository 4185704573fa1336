import { execFile } from "node:child_process";
import { chmod, mkdir, mkdtemp, readdir, readFile, readlink, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { COPY_SCRIPT, USER_SCRIPT, WORKDIR_SCRIPT } from "./step-scripts.ts";

// The scripts are meant for guests: here they run as whoever runs the tests, below a folder of the test.
const execute = promisify(execFile);
const ME = userInfo().username;

let folder: string;
let context: string;
let target: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "step scripts-"));
  context = join(folder, "context");
  target = join(folder, "target dir");
  await mkdir(context);
  await mkdir(target);
});

afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

async function bash(script: string, ...args: readonly string[]): Promise<string> {
  return (await execute("/bin/bash", ["-c", script, "build", ...args])).stdout;
}

async function put(files: Readonly<Record<string, string>>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    const full = join(context, path);
    await mkdir(join(full, ".."), { recursive: true });
    await writeFile(full, content);
  }
}

/** Packs the names as a client does, and copies. */
async function copy(
  names: readonly string[],
  source: string,
  destination: string,
  { kind = "plain", mode = "" }: { readonly kind?: "plain" | "glob"; readonly mode?: string } = {},
): Promise<void> {
  const archive = join(folder, "archive.tar");
  await execute("tar", ["-czf", archive, "-C", context, "--", ...names]);
  await bash(COPY_SCRIPT, archive, source, kind, destination, ME, mode);
}

async function found(): Promise<string[]> {
  const entries = await readdir(target, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name).slice(target.length + 1))
    .sort();
}

describe("COPY", () => {
  it.each<[string, string, string[]]>([
    ["a file to a name", "new name.txt", ["new name.txt"]],
    ["a file to a name in folders that are not there", "a/b/c", ["a/b/c"]],
    ["a file into a folder that is not there", "a/b/", ["a/b/one.txt"]],
    ["a file into a folder that is there", "", ["one.txt"]],
  ])("copies %s", async (_what, destination, files) => {
    await put({ "one.txt": "1" });
    await copy(["one.txt"], "one.txt", `${target}/${destination}`);
    expect(await found()).toStrictEqual(files);
  });

  it("copies the content of a folder, hidden files and links included, and keeps what is there", async () => {
    await put({ "app/a": "new", "app/.hidden": "h", "app/sub/b": "b", "other/x": "x" });
    await symlink("a", join(context, "app/link"));
    await symlink("/nowhere", join(context, "app/broken"));
    await mkdir(join(target, "sub"));
    await writeFile(join(target, "a"), "old");
    await writeFile(join(target, "sub", "kept"), "k");
    await copy(["app"], "app", target);
    expect(await found()).toStrictEqual([".hidden", "a", "broken", "link", "sub/b", "sub/kept"]);
    expect(await readFile(join(target, "a"), "utf8")).toBe("new");
    expect(await readlink(join(target, "broken"))).toBe("/nowhere");
  });

  it("copies everything of the context", async () => {
    await put({ a: "a", "sub/b": "b" });
    await copy(["."], ".", join(target, "all"));
    expect(await found()).toStrictEqual(["all/a", "all/sub/b"]);
  });

  it.each<[string, string[]]>([
    ["*.log", ["out/-b.log", "out/a a.log"]],
    ["@(one|two).txt", ["out/one.txt", "out/two.txt"]],
    ["**/*.js", ["out/deep.js", "out/top.js"]],
    ["?ne.txt", ["out"]],
  ])("copies what the pattern %s finds", async (pattern, files) => {
    await put({ "a a.log": "", "-b.log": "", "one.txt": "", "two.txt": "", "top.js": "", "x/y/deep.js": "" });
    await copy(["."], pattern, join(target, "out"), { kind: "glob" });
    expect(await found()).toStrictEqual(files);
  });

  it("takes no name for a pattern, an option or a command", async () => {
    await put({ "*": "star", "-rf": "dash", "$(id)": "dollar", "a b'\"": "quotes" });
    for (const name of ["*", "-rf", "$(id)", "a b'\""]) {
      await copy([`./${name}`], name, `${target}/${name}`);
    }
    expect(await found()).toStrictEqual(["$(id)", "*", "-rf", "a b'\""]);
  });

  it("keeps modes, or gives those that are asked for", async () => {
    await put({ "run.sh": "" });
    await chmod(join(context, "run.sh"), 0o751);
    await copy(["run.sh"], "run.sh", join(target, "kept"));
    await copy(["run.sh"], "run.sh", join(target, "given"), { mode: "0640" });
    const modes = await Promise.all(["kept", "given"].map((name) => stat(join(target, name))));
    expect(modes.map(({ mode }) => mode & 0o777)).toStrictEqual([0o751, 0o640]);
  });

  it.each(["missing", "app/missing"])("fails for %s, which the upload does not have", async (source) => {
    await put({ "app/a": "" });
    await expect(copy(["app"], source, target)).rejects.toThrow(`no such file in the upload: ${source}`);
    await expect(copy(["app"], "*.no", target, { kind: "glob" })).rejects.toThrow("no such file");
  });

  it("fails where a file stands in the way, and leaves neither archive nor stage behind", async () => {
    await put({ "app/a": "" });
    await writeFile(join(target, "file"), "");
    await expect(copy(["app"], "app", join(target, "file", "x"))).rejects.toThrow("file");
    expect(await readdir(folder)).not.toContain("archive.tar");
  });
});

describe("WORKDIR", () => {
  it("makes folders, and is content with one that is there", async () => {
    const made = join(target, "a b", "-c");
    await bash(WORKDIR_SCRIPT, made, ME);
    await bash(WORKDIR_SCRIPT, made, ME);
    expect((await stat(made)).isDirectory()).toBe(true);
  });

  it("fails for an owner that nobody is", async () => {
    await expect(bash(WORKDIR_SCRIPT, join(target, "x"), "nobody-is-called-so")).rejects.toThrow(/no such user/i);
  });

  it("fails where a file is", async () => {
    await writeFile(join(target, "file"), "");
    await expect(bash(WORKDIR_SCRIPT, join(target, "file"), ME)).rejects.toThrow("file");
  });
});

describe("USER", () => {
  it("prints the name of a user that is there, also for its number and its group", async () => {
    expect(await bash(USER_SCRIPT, ME, "")).toBe(`${ME}\n`);
    expect(await bash(USER_SCRIPT, "0", "0")).toBe("root\n");
    expect(await bash(USER_SCRIPT, "root", "root")).toBe("root\n");
  });

  it("fails for a number that nobody has, and for another group", async () => {
    await expect(bash(USER_SCRIPT, "4000000001", "")).rejects.toThrow("there is no user with the id 4000000001");
    await expect(bash(USER_SCRIPT, "root", "nogroup")).rejects.toThrow("the group nogroup is not the one of");
  });
});
