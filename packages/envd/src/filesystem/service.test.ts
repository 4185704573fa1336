import { chmod, mkdir, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { Code, ConnectError } from "@connectrpc/connect";
import { toJson } from "@bufbuild/protobuf";
import { EntryInfoSchema, FileType } from "@org/envd-client";
import { describe, expect, it } from "vitest";

import { isRoot, startGuest } from "../testing/guest.ts";
import { sh } from "../testing/run.ts";

async function failure(call: Promise<unknown>): Promise<[string | undefined, string]> {
  return call.then(
    () => {
      throw new Error("the call was expected to fail");
    },
    (error: unknown) => {
      const known = ConnectError.from(error);
      return [Code[known.code], known.rawMessage];
    },
  );
}

describe.each([{ binary: false }, { binary: true }])("Stat (binary: $binary)", (wire) => {
  it("describes files, directories and links", async () => {
    await using guest = await startGuest();
    const at = (name: string): string => join(guest.home, name);
    await writeFile(at("file"), "12345", { mode: 0o644 });
    await chmod(at("file"), 0o644);
    await utimes(at("file"), 1_700_000_000.25, 1_700_000_000.25);
    await mkdir(at("dir"), { mode: 0o755 });
    await symlink(at("file"), at("link"));
    await symlink(at("nowhere"), at("broken"));
    await symlink(at("loop"), at("loop"));
    const stat = async (path: string) => toJson(EntryInfoSchema, (await guest.filesystem(wire).stat({ path })).entry!);
    const names = isRoot ? { owner: "root", group: "root" } : { owner: "user", group: "user" };
    expect(await stat("file")).toEqual({
      name: "file",
      type: "FILE_TYPE_FILE",
      path: at("file"),
      size: "5",
      mode: 0o644,
      permissions: "-rw-r--r--",
      modifiedTime: "2023-11-14T22:13:20.250Z",
      ...names,
    });
    expect(await stat(at("dir"))).toMatchObject({
      type: "FILE_TYPE_DIRECTORY",
      mode: 0o755,
      permissions: "drwxr-xr-x",
    });
    expect(await stat("~/link")).toMatchObject({
      type: "FILE_TYPE_FILE",
      mode: 0o644,
      permissions: "Lrwxrwxrwx",
      symlinkTarget: at("file"),
      path: at("link"),
    });
    for (const name of ["broken", "loop"]) {
      const entry = await stat(name);
      expect(entry).toMatchObject({ permissions: "Lrwxrwxrwx", symlinkTarget: at(name) });
      expect(entry).not.toHaveProperty("type");
      expect(entry).not.toHaveProperty("mode");
    }
  });

  it("takes absolute paths as they are and reports them so", async () => {
    await using guest = await startGuest();
    const path = `${guest.home}/../user/.`;
    expect((await guest.filesystem(wire).stat({ path })).entry?.path).toBe(path);
  });
});

describe("errors of files", () => {
  it.each([
    ["Stat of a missing path", "stat", { path: "none" }, "NotFound"],
    ["Stat below a file", "stat", { path: "file/x" }, "Internal"],
    ["Stat of another's home", "stat", { path: "~root/x" }, "InvalidArgument"],
    ["Stat with a NUL", "stat", { path: "a\0b" }, "InvalidArgument"],
    ["MakeDir of a directory", "makeDir", { path: "dir" }, "AlreadyExists"],
    ["MakeDir of a file", "makeDir", { path: "file" }, "InvalidArgument"],
    ["MakeDir below a file", "makeDir", { path: "file/x" }, "Internal"],
    ["Move of a missing path", "move", { source: "none", destination: "x" }, "NotFound"],
    ["Move of a missing path into a missing directory", "move", { source: "none", destination: "new/x" }, "NotFound"],
    ["Move over a full directory", "move", { source: "dir", destination: "full" }, "Internal"],
    ["Move below a file", "move", { source: "dir", destination: "file/x" }, "Internal"],
    ["ListDir of a missing path", "listDir", { path: "none" }, "NotFound"],
    ["ListDir of a file", "listDir", { path: "file" }, "InvalidArgument"],
    ["ListDir of a loop", "listDir", { path: "loop" }, "FailedPrecondition"],
  ] as const)("%s is %s", async (_what, method, request, code) => {
    await using guest = await startGuest();
    await writeFile(join(guest.home, "file"), "");
    await mkdir(join(guest.home, "dir"));
    await mkdir(join(guest.home, "full", "inner"), { recursive: true });
    await symlink("loop", join(guest.home, "loop"));
    const client = guest.filesystem();
    const call = client[method] as (request: unknown) => Promise<unknown>;
    expect((await failure(call(request)))[0]).toBe(code);
    // A refused move leaves nothing behind.
    if (method === "move") expect(await client.stat({ path: "dir" })).toBeDefined();
    expect((await failure(client.stat({ path: "new" })))[0]).toBe("NotFound");
  });

  it("say what the SDKs show", async () => {
    await using guest = await startGuest();
    await writeFile(join(guest.home, "file"), "");
    expect((await failure(guest.filesystem().listDir({ path: "file" })))[1]).toBe(
      `path is not a directory: ${guest.home}/file`,
    );
  });
});

describe("MakeDir, Move and Remove", () => {
  it("create all levels for the user, with mode 0755", async () => {
    await using guest = await startGuest();
    const client = guest.filesystem();
    const { entry } = await client.makeDir({ path: "a/b/c" });
    expect(entry).toMatchObject({ name: "c", path: join(guest.home, "a/b/c"), type: FileType.DIRECTORY, mode: 0o755 });
    for (const path of ["a", "a/b", "a/b/c"]) {
      expect((await client.stat({ path })).entry).toMatchObject({ owner: "user", group: "user" });
    }
  });

  it("race without harm: fifty at once, one wins each level", async () => {
    await using guest = await startGuest();
    const client = guest.filesystem();
    const results = await Promise.allSettled(Array.from({ length: 50 }, () => client.makeDir({ path: "x/y/z" })));
    const failed = results.filter((result) => result.status === "rejected");
    expect(failed.map(({ reason }) => ConnectError.from(reason).code)).toEqual(failed.map(() => Code.AlreadyExists));
    expect(failed).toHaveLength(49);
  });

  it("move files over files and into new directories", async () => {
    await using guest = await startGuest();
    const client = guest.filesystem();
    await writeFile(join(guest.home, "from"), "new");
    await writeFile(join(guest.home, "to"), "old content");
    expect((await client.move({ source: "from", destination: "to" })).entry?.size).toBe(3n);
    const { entry } = await client.move({ source: "to", destination: "deep/er/name" });
    expect(entry).toMatchObject({ name: "name", path: join(guest.home, "deep/er/name") });
    expect((await failure(client.stat({ path: "to" })))[0]).toBe("NotFound");
  });

  it("remove trees, links without their targets, and what is not there", async () => {
    await using guest = await startGuest();
    const client = guest.filesystem();
    await mkdir(join(guest.home, "tree", "inner"), { recursive: true });
    await writeFile(join(guest.home, "kept"), "");
    await symlink("kept", join(guest.home, "link"));
    for (const path of ["tree", "link", "never-there"]) await client.remove({ path });
    expect((await client.listDir({})).entries.map(({ name }) => name)).toEqual(["kept"]);
  });
});

describe("ListDir", () => {
  it("goes as deep as asked, each directory before its entries, in the order of names", async () => {
    await using guest = await startGuest();
    for (const path of ["b/2/x", "b/1", "a", "b.c"]) await mkdir(join(guest.home, path), { recursive: true });
    await writeFile(join(guest.home, "B"), "");
    await symlink("b", join(guest.home, "link"));
    const list = async (path: string, depth: number): Promise<string[]> =>
      (await guest.filesystem().listDir({ path, depth })).entries.map((entry) =>
        entry.path.slice(guest.home.length + 1),
      );
    const flat = ["B", "a", "b", "b.c", "link"];
    expect(await list("", 0)).toEqual(flat);
    expect(await list("~", 1)).toEqual(flat);
    expect(await list(".", 2)).toEqual(["B", "a", "b", "b/1", "b/2", "b.c", "link"]);
    expect(await list(guest.home, 9)).toEqual(["B", "a", "b", "b/1", "b/2", "b/2/x", "b.c", "link"]);
    // The start may be a link, and paths are those that were asked for.
    expect(await list("link", 1)).toEqual(["link/1", "link/2"]);
  });

  it("copes with many entries and with ones that vanish meanwhile", async () => {
    await using guest = await startGuest();
    await sh(guest.process(), "i=0; while [ $i -lt 3000 ]; do : > f$i; i=$((i+1)); done");
    const churn = sh(guest.process(), "rm -f f1*");
    const { entries } = await guest.filesystem().listDir({ path: "." });
    await churn;
    const names = entries.map(({ name }) => name);
    expect(names.length).toBeGreaterThan(1500);
    expect(names).toEqual(names.toSorted((a, b) => (a < b ? -1 : 1)));
  });
});

describe("path mappings", () => {
  it("show the guest's own paths for files that lie elsewhere", async () => {
    await using guest = await startGuest();
    await using mapped = await startGuest({
      passwdFile: join(guest.directory, "mapped"),
      pathMappings: [{ guest: "/home/user", host: guest.home }],
    });
    const uid = process.getuid?.() ?? 0;
    await writeFile(join(guest.directory, "mapped"), `user:x:${uid}:${uid}::/home/user:/bin/sh\n`);
    const client = mapped.filesystem();
    const { entry } = await client.makeDir({ path: "/home/user/one" });
    expect(entry).toMatchObject({ path: "/home/user/one", owner: "user" });
    await symlink(join(guest.home, "one"), join(guest.home, "link"));
    const { entries } = await client.listDir({ path: "/home/user" });
    expect(entries.map(({ path, symlinkTarget }) => [path, symlinkTarget])).toEqual([
      ["/home/user/link", "/home/user/one"],
      ["/home/user/one", undefined],
    ]);
    // Commands live in the real tree.
    expect((await sh(mapped.process(), "pwd; echo $HOME; ls", { cwd: "/home/user" })).stdout.toString()).toBe(
      `${guest.home}\n${guest.home}\nlink\none\n`,
    );
    expect((await client.listDir({ path: guest.home })).entries[0]?.path).toBe(join(guest.home, "link"));
  });
});
