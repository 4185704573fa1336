import { chmod, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { scratchFolder } from "../testing/program.ts";
import { openState, stateFolder } from "./state.ts";

test.each<[string, string, Readonly<Record<string, string>>, string]>([
  ["the flag", "/srv/state", { XDG_STATE_HOME: "/xdg" }, "/srv/state"],
  ["the base directory", "", { XDG_STATE_HOME: "/xdg" }, "/xdg/sandbox-e2b"],
  [
    "the home, past a relative base directory",
    "",
    { XDG_STATE_HOME: "xdg" },
    join(homedir(), ".local/state/sandbox-e2b"),
  ],
  ["the home", "", {}, join(homedir(), ".local/state/sandbox-e2b")],
])("the state folder follows %s", (_name, flag, env, folder) => {
  expect(stateFolder(flag, env)).toBe(folder);
});

test.each(["", "relative", "~"])("a home that is none (%j) is no place for secrets", (home) => {
  expect(() => stateFolder("", {}, home)).toThrow("--state-dir");
  expect(stateFolder("", { XDG_STATE_HOME: "/xdg" }, home)).toBe("/xdg/sandbox-e2b");
  expect(stateFolder("/srv", {}, home)).toBe("/srv");
});

test("a relative state folder is taken from the working directory", () => {
  expect(stateFolder("state", {})).toBe(join(process.cwd(), "state"));
});

describe("the state", () => {
  test("is made for this user alone, with two keys in two namespaces and two names of the image", async () => {
    await using folder = await scratchFolder();
    const dir = join(folder.path, "deep", "state");
    const state = await openState(dir, "img:1");
    expect((await stat(dir)).mode & 0o777).toBe(0o700);
    for (const file of [state.keyFile, state.tokenFile, state.secretFile, state.aliasFile]) {
      expect((await stat(file)).mode & 0o777).toBe(0o600);
    }
    expect(await readFile(state.keyFile, "utf8")).toMatch(/^e2b_[0-9a-f]{40} default\ne2b_[0-9a-f]{40} second\n$/);
    expect(await readFile(state.aliasFile, "utf8")).toBe(
      "base img:1\nubuntu img:1\ne2bdev/base img:1 medium\ncode-interpreter-v1 code-interpreter:v1\n",
    );
    expect(await readFile(state.tokenFile, "utf8")).toMatch(/^[0-9a-f]{64}\n$/);
  });

  test("closes a folder that was open to others", async () => {
    await using folder = await scratchFolder();
    await chmod(folder.path, 0o755);
    await openState(folder.path, "img:1");
    expect((await stat(folder.path)).mode & 0o777).toBe(0o700);
  });

  test("keeps its secrets from run to run, and what its owner changed", async () => {
    await using folder = await scratchFolder();
    const first = await openState(folder.path, "img:1");
    const token = await readFile(first.tokenFile, "utf8");
    await writeFile(first.keyFile, "mine\n");
    const second = await openState(folder.path, "img:2");
    expect(await readFile(second.tokenFile, "utf8")).toBe(token);
    expect(await readFile(second.keyFile, "utf8")).toBe("mine\n");
    expect(await readFile(second.aliasFile, "utf8")).toBe(
      "base img:2\nubuntu img:2\ne2bdev/base img:2 medium\ncode-interpreter-v1 code-interpreter:v1\n",
    );
    expect(await readFile(first.aliasFile, "utf8")).toBe(
      "base img:1\nubuntu img:1\ne2bdev/base img:1 medium\ncode-interpreter-v1 code-interpreter:v1\n",
    );
  });

  test("is one when many runs make it at once", async () => {
    await using folder = await scratchFolder();
    const states = await Promise.all(Array.from({ length: 12 }, () => openState(folder.path, "img:1")));
    const keys = await Promise.all(states.map((state) => readFile(state.keyFile, "utf8")));
    expect(new Set(keys).size).toBe(1);
    expect(await readdir(folder.path)).toHaveLength(5);
  });
});

test.each(["file", "file/state"])("a state folder that cannot be one is refused by name and flag: %s", async (tail) => {
  await using folder = await scratchFolder();
  await writeFile(join(folder.path, "file"), "");
  await expect(openState(join(folder.path, tail), "img")).rejects.toThrow(
    /^state folder ".*file.*" cannot be used, choose another with --state-dir: /,
  );
});

test.skipIf(process.platform !== "linux")(
  "a state folder below one that takes none is refused, not waited for",
  async () => {
    await expect(openState("/proc/state/of/mine", "img")).rejects.toThrow(/cannot be used.*ENOENT/);
  },
);
