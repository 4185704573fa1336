import { mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createDirectoryStore, prepareDirectory } from "./directory-store.ts";
import type { DirectoryStore } from "./directory-store.ts";
import { mayUpload, signUpload, uploadQuery } from "./upload-signature.ts";
import type { UploadKey } from "./upload-key.ts";

const KEY: UploadKey = { namespace: "ns1", template: "mine", hash: "ab".repeat(32) };

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "uploads-"));
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

async function* chunks(...texts: readonly string[]): AsyncGenerator<Uint8Array, void> {
  for (const text of texts) {
    await Promise.resolve();
    yield Buffer.from(text);
  }
}

async function kept(store: DirectoryStore): Promise<Buffer> {
  const content = await store.open(KEY, { signal: new AbortController().signal });
  if (content === undefined) {
    throw new Error("there is no such archive");
  }
  return buffer(content);
}

async function files(): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
}

describe("the directory store", () => {
  const options = { signal: new AbortController().signal };

  it("keeps what it was given under namespace, template and hash", async () => {
    const store = createDirectoryStore({ directory, maxBytes: 100 });
    expect([await store.present(KEY, options), await store.open(KEY, options)]).toStrictEqual([false, undefined]);
    await store.receive(KEY, chunks("one", "two"));
    expect(await readFile(join(directory, "ns1", "mine", `${KEY.hash}.tar`), "utf8")).toBe("onetwo");
    expect(await store.present(KEY, options)).toBe(true);
    expect(await kept(store)).toStrictEqual(Buffer.from("onetwo"));
    expect(await store.present({ ...KEY, namespace: "ns2" }, options)).toBe(false);
    expect(await store.present({ ...KEY, template: "mine/x" }, options)).toBe(false);
    expect((await stat(join(directory, "ns1"))).mode & 0o777).toBe(0o750);
  });

  it("replaces what was there, and only once the new one is complete", async () => {
    const store = createDirectoryStore({ directory, maxBytes: 100 });
    await store.receive(KEY, chunks("old"));
    const slow = async function* (): AsyncGenerator<Uint8Array, void> {
      yield Buffer.from("ne");
      expect(await kept(store)).toStrictEqual(Buffer.from("old"));
      yield Buffer.from("w");
    };
    await store.receive(KEY, slow());
    expect(await kept(store)).toStrictEqual(Buffer.from("new"));
  });

  it("takes exactly its bound, and leaves nothing of more", async () => {
    const store = createDirectoryStore({ directory, maxBytes: 16 });
    await store.receive(KEY, chunks("0123456789", "abcdef"));
    await rm(join(directory, "ns1"), { recursive: true });
    await expect(store.receive(KEY, chunks("0123456789", "abcdefg"))).rejects.toMatchObject({ code: "too_large" });
    expect([await files(), await store.present(KEY, options)]).toStrictEqual([[], false]);
  });

  it("leaves nothing of an upload that breaks off", async () => {
    const store = createDirectoryStore({ directory, maxBytes: 100 });
    const broken = async function* (): AsyncGenerator<Uint8Array, void> {
      yield* chunks("half");
      throw new Error("gone");
    };
    await expect(store.receive(KEY, broken())).rejects.toThrow("gone");
    expect(await files()).toStrictEqual([]);
  });

  it("removes what an upload of a process that died has left beside it", async () => {
    const store = createDirectoryStore({ directory, maxBytes: 100 });
    await store.receive(KEY, chunks("one"));
    const folder = join(directory, "ns1", "mine");
    const [left] = await readdir(folder);
    for (const [name, ageMs] of [
      ["dead.tar.ab.part", 601_000],
      ["live.tar.cd.part", 500_000],
    ] as const) {
      await writeFile(join(folder, name), "half");
      const at = new Date(Date.now() - ageMs);
      await utimes(join(folder, name), at, at);
    }
    await store.receive(KEY, chunks("two"));
    expect(new Set(await readdir(folder))).toStrictEqual(new Set([left, "live.tar.cd.part"]));
  });

  it("keeps two uploads of one archive apart", async () => {
    const store = createDirectoryStore({ directory, maxBytes: 1_000_000 });
    const big = (letter: string): AsyncGenerator<Uint8Array, void> =>
      chunks(...Array.from({ length: 50 }, () => letter.repeat(1000)));
    await Promise.all([store.receive(KEY, big("a")), store.receive(KEY, big("b"))]);
    const archive = await kept(store);
    expect(archive.toString()).toMatch(/^(?:a{50000}|b{50000})$/);
    expect(await files()).toHaveLength(1);
  });
});

describe("prepareDirectory", () => {
  it("makes the folder for its group alone, and removes parts that nobody writes any more", async () => {
    const made = join(directory, "deep", "uploads");
    await prepareDirectory(made);
    expect((await stat(made)).mode & 0o777).toBe(0o750);
    await mkdir(join(made, "ns1", "mine"), { recursive: true });
    const old = join(made, "ns1", "mine", "x.tar.ab.part");
    await writeFile(old, "half");
    await writeFile(join(made, "ns1", "mine", "y.tar.cd.part"), "half");
    await writeFile(join(made, "ns1", "mine", "z.tar"), "whole");
    await utimes(join(made, "ns1", "mine", "z.tar"), 0, 0);
    await utimes(old, 0, 0);
    await prepareDirectory(made);
    expect((await readdir(join(made, "ns1", "mine"))).sort()).toStrictEqual(["y.tar.cd.part", "z.tar"]);
  });

  it("says which flag names a folder that cannot be", async () => {
    const file = join(directory, "file");
    await writeFile(file, "");
    await expect(prepareDirectory(join(file, "x"))).rejects.toMatchObject({ code: "invalid_options" });
    await expect(prepareDirectory(join(file, "x"))).rejects.toThrow("--e2b-build-dir");
  });
});

describe("the signature of an upload", () => {
  const now = 1_800_000_000;
  const query = signUpload("secret", KEY, now + 3600);
  const proof = uploadQuery.read(query);

  it("is the one of the contract", () => {
    // echo -ne 'e2b-upload\0ns1\0mine\0abab…\01800003600' | openssl dgst -sha256 -hmac secret
    expect([...query.keys()]).toStrictEqual(["ns", "expires", "sig"]);
    expect(query.get("sig")).toBe("be2992fb0329ca3afd49be0015e97cd6ffbbc02a1722495d611391820e5877fd");
  });

  it("holds for its own upload until it expires", () => {
    expect(mayUpload("secret", KEY, proof, now)).toBe(true);
    expect(mayUpload("secret", KEY, proof, now + 3600)).toBe(true);
    expect(mayUpload("secret", KEY, proof, now + 3601)).toBe(false);
  });

  it.each<[string, Partial<UploadKey>]>([
    ["hash", { hash: "cd".repeat(32) }],
    ["template", { template: "mine2" }],
    ["namespace", { namespace: "ns2" }],
  ])("does not hold for another %s", (_what, other) => {
    expect(mayUpload("secret", { ...KEY, ...other }, proof, now)).toBe(false);
  });

  it.each<[string, Record<string, string>]>([
    ["a later time", { expires: String(now + 7200) }],
    ["no time", { expires: "" }],
    ["a time that is none", { expires: "1e99" }],
    ["no signature", { sig: "" }],
    ["half a signature", { sig: (query.get("sig") ?? "").slice(0, 32) }],
    ["another signature", { sig: "00".repeat(32) }],
  ])("does not hold with %s", (_what, change) => {
    expect(mayUpload("secret", KEY, { ...proof, ...change }, now)).toBe(false);
    expect(mayUpload("other", KEY, proof, now)).toBe(false);
  });
});
