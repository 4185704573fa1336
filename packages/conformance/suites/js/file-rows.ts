import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";

import { FormData, request } from "undici";

import { type RowContext, rejects, type Row } from "./context.ts";

const ALL_BYTES = new Uint8Array(256).map((_unused, index) => index);

const collect = async (stream: ReadableStream<Uint8Array>): Promise<Uint8Array> => {
  const parts: Uint8Array[] = [];
  for await (const part of stream) {
    parts.push(part);
  }
  return Buffer.concat(parts);
};

const plain = (bytes: Uint8Array): number[] => [...bytes];

/**
 * Calls an address the SDK made, whose host names the sandbox, through the proxy on loopback: the wildcard name of the
 * rig resolves nowhere.
 */
const viaHost = async (
  context: RowContext,
  address: string,
  choices: { method?: "GET" | "POST"; body?: string | FormData; query?: Readonly<Record<string, string>> } = {},
): Promise<{ status: number; text: string }> => {
  const url = new URL(address);
  for (const [name, value] of Object.entries(choices.query ?? {})) {
    url.searchParams.set(name, value);
  }
  const response = await request(`${context.rig.proxyUrl}${url.pathname}${url.search}`, {
    method: choices.method ?? "GET",
    headers: { host: url.host },
    ...(choices.body === undefined ? {} : { body: choices.body }),
  });
  return { status: response.statusCode, text: await response.body.text() };
};

const form = (text: string): FormData => {
  const data = new FormData();
  data.append("file", new Blob([text]), "ignored-name");
  return data;
};

/** The same sandbox through a handle that does not know the loopback address, as users with a wildcard name have it. */
const byName = async (context: RowContext): ReturnType<typeof context.shared> => {
  const { sandboxId } = await context.shared();
  const { apiKey, apiUrl, domain } = context.options();
  return context.sdk.Sandbox.connect(sandboxId, { apiKey, apiUrl, domain });
};

/** `files` of the SDK. */
export const fileRows: Readonly<Record<string, Row>> = {
  FL1: async (context) => {
    const { files } = await context.shared();
    await files.write("/tmp/all-bytes", ALL_BYTES.buffer);
    assert.deepEqual(plain(await files.read("/tmp/all-bytes", { format: "bytes" })), plain(ALL_BYTES));
    const blob = await files.read("/tmp/all-bytes", { format: "blob" });
    assert.deepEqual(plain(new Uint8Array(await blob.arrayBuffer())), plain(ALL_BYTES));
    const stream = await files.read("/tmp/all-bytes", { format: "stream" });
    assert.deepEqual(plain(await collect(stream)), plain(ALL_BYTES));
    await files.write("/tmp/text", "é漢🙂\r\n\0");
    assert.equal(await files.read("/tmp/text", { format: "text" }), "é漢🙂\r\n\0");
  },

  FL2: async (context) => {
    const { files } = await context.shared();
    const kinds: readonly [string, string | ArrayBuffer | Blob | ReadableStream, object][] = [
      ["string", "kind", {}],
      ["buffer", new TextEncoder().encode("kind").buffer, {}],
      ["blob", new Blob(["kind"]), {}],
      ["stream", new Blob(["kind"]).stream(), {}],
      ["octet", "kind", { useOctetStream: true }],
    ];
    for (const [name, data, options] of kinds) {
      const path = `/home/user/kinds/${name} file.txt`;
      const info = await files.write(path, data, options);
      assert.deepEqual({ ...info }, { name: `${name} file.txt`, path, type: "file", metadata: undefined });
      assert.equal(await files.read(path), "kind", name);
    }
  },

  FL3: async (context) => {
    const { files } = await context.shared();
    for (const options of [{}, { useOctetStream: true }]) {
      await files.write("/tmp/empty", "", options);
      assert.equal(await files.read("/tmp/empty"), "");
      assert.equal((await files.read("/tmp/empty", { format: "bytes" })).length, 0);
      assert.equal((await files.read("/tmp/empty", { format: "blob" })).size, 0);
      assert.equal((await collect(await files.read("/tmp/empty", { format: "stream" }))).length, 0);
      assert.equal((await files.getInfo("/tmp/empty")).size, 0);
    }
  },

  FL4: async (context) => {
    const { files } = await context.shared();
    const path = "/home/user/deep/er/and deeper/é.txt";
    await files.write(path, "first, and longer");
    await files.write(path, "second");
    assert.equal(await files.read(path), "second");
    const parent = await files.getInfo("/home/user/deep/er");
    assert.deepEqual([parent.type, parent.mode.toString(8), parent.owner], ["dir", "755", "user"]);
    const file = await files.getInfo(path);
    assert.deepEqual([file.mode.toString(8), file.owner, file.group, file.size], ["644", "user", "user", 6]);
  },

  FL5: async (context) => {
    const { files } = await context.shared();
    assert.deepEqual(await files.write([]), []);
    const written = await files.write([
      { path: "several/a.txt", data: "A" },
      { path: "/home/user/several/b.txt", data: new Blob(["B"]) },
      { path: "several/c.txt", data: new TextEncoder().encode("C").buffer },
    ]);
    assert.deepEqual(
      written.map((info) => info.path),
      ["/home/user/several/a.txt", "/home/user/several/b.txt", "/home/user/several/c.txt"],
    );
    const streamed = await files.writeFiles([
      { path: "/home/user/several/d.txt", data: new Blob(["D"]).stream() },
      { path: "/home/user/several/e.txt", data: "E" },
    ]);
    assert.equal(streamed.length, 2);
    for (const letter of ["a", "b", "c", "d", "e"]) {
      assert.equal(await files.read(`/home/user/several/${letter}.txt`), letter.toUpperCase());
    }
  },

  FL6: async (context) => {
    const { files } = await context.shared();
    await files.write([
      { path: "/home/user/tree/b/c/d.txt", data: "4" },
      { path: "/home/user/tree/a.txt", data: "1" },
      { path: "/home/user/tree/z.txt", data: "1" },
    ]);
    const paths = async (depth?: number): Promise<string[]> =>
      (await files.list("/home/user/tree", depth === undefined ? {} : { depth })).map((entry) => entry.path.slice(16));
    assert.deepEqual(await paths(), ["a.txt", "b", "z.txt"]);
    assert.deepEqual(await paths(1), ["a.txt", "b", "z.txt"]);
    assert.deepEqual(await paths(2), ["a.txt", "b", "b/c", "z.txt"]);
    assert.deepEqual(await paths(3), ["a.txt", "b", "b/c", "b/c/d.txt", "z.txt"]);
    const types = (await files.list("/home/user/tree")).map((entry) => entry.type);
    assert.deepEqual(types, ["file", "dir", "file"]);
  },

  FL7: async (context) => {
    const { files, commands } = await context.shared();
    await files.write("/home/user/info/file.txt", "12345");
    await commands.run("ln -sf /home/user/info/file.txt link && ln -sf /nowhere dangling && chmod 4750 file.txt", {
      cwd: "/home/user/info",
    });
    const file = await files.getInfo("/home/user/info/file.txt");
    assert.deepEqual([file.name, file.type, file.size, file.permissions], ["file.txt", "file", 5, "urwxr-x---"]);
    assert.ok(Math.abs((file.modifiedTime?.getTime() ?? 0) - Date.now()) < 60_000, "modified just now");
    const directory = await files.getInfo("/home/user/info");
    assert.deepEqual([directory.type, directory.permissions], ["dir", "drwxr-xr-x"]);
    const link = await files.getInfo("/home/user/info/link");
    assert.deepEqual(
      [link.type, link.symlinkTarget, link.permissions],
      ["file", "/home/user/info/file.txt", "Lrwxrwxrwx"],
    );
    const names = (await files.list("/home/user/info")).map((entry) => entry.name);
    assert.deepEqual(names, ["file.txt", "link"], "a dangling link has no type and is left out by the SDK");
  },

  FL8: async (context) => {
    const { files } = await context.shared();
    await files.write("/home/user/from.txt", "moved");
    const moved = await files.rename("/home/user/from.txt", "/home/user/new folder/to.txt");
    assert.deepEqual([moved.path, moved.name, moved.type], ["/home/user/new folder/to.txt", "to.txt", "file"]);
    assert.equal(await files.exists("/home/user/from.txt"), false);
    await files.write("/home/user/over.txt", "new");
    await files.rename("/home/user/over.txt", "/home/user/new folder/to.txt");
    assert.equal(await files.read("/home/user/new folder/to.txt"), "new");
  },

  FL9: async (context) => {
    const { files } = await context.shared();
    await files.write("/home/user/gone/deep/file.txt", "x");
    await files.remove("/home/user/gone");
    assert.equal(await files.exists("/home/user/gone"), false);
    await files.remove("/home/user/gone");
  },

  FL10: async (context) => {
    const { files } = await context.shared();
    assert.equal(await files.exists("/home/user/made/by/us"), false);
    assert.equal(await files.makeDir("/home/user/made/by/us"), true);
    assert.equal(await files.makeDir("/home/user/made/by/us"), false);
    assert.equal(await files.exists("/home/user/made/by/us"), true);
    await files.write("/home/user/made/file", "x");
    await rejects(files.makeDir("/home/user/made/file"), context.sdk.InvalidArgumentError);
  },

  FL11: async (context) => {
    const { files } = await context.shared();
    const { FileNotFoundError, NotFoundError, InvalidArgumentError } = context.sdk;
    const missing = "/home/user/never/was";
    for (const call of [
      files.read(missing),
      files.read(missing, { format: "stream" }),
      files.list(missing),
      files.getInfo(missing),
      files.rename(missing, "/home/user/other"),
    ]) {
      assert.ok((await rejects(call, FileNotFoundError)) instanceof NotFoundError);
    }
    await rejects(files.read("/home/user"), InvalidArgumentError, /is a directory/);
    await files.write("/home/user/a-file", "x");
    await rejects(files.list("/home/user/a-file"), InvalidArgumentError, /not a directory/);
  },

  FL12: async (context) => {
    const { files } = await context.shared();
    const text = "squeeze me ".repeat(5_000);
    await files.write("/tmp/squeezed", text, { gzip: true });
    assert.equal((await files.getInfo("/tmp/squeezed")).size, text.length, "stored plain");
    assert.equal(await files.read("/tmp/squeezed", { gzip: true }), text);
    assert.equal(await files.read("/tmp/squeezed"), text);
  },

  FL13: async (context) => {
    const { files } = await context.shared();
    const path = "/home/user/with-metadata.txt";
    const written = await files.write(path, "x", { metadata: { Owner: "somebody", "build-id": "42" } });
    assert.deepEqual(written.metadata, { owner: "somebody", "build-id": "42" });
    assert.deepEqual((await files.getInfo(path)).metadata, { owner: "somebody", "build-id": "42" });
    await files.write(path, "y");
    assert.equal((await files.getInfo(path)).metadata, undefined, "cleared by a write without metadata");
  },

  FL14: async (context) => {
    const { files } = await context.shared();
    await files.write("relative.txt", "user's");
    assert.equal(await files.read("/home/user/relative.txt"), "user's");
    assert.equal(await files.read("~/relative.txt"), "user's");
    const written = await files.write("relative.txt", "root's", { user: "root" });
    assert.equal(written.path, "/root/relative.txt");
    assert.equal((await files.getInfo("/root/relative.txt")).owner, "root");
    await rejects(files.read("x", { user: "nobody-here" }), context.sdk.AuthenticationError);
  },

  FL15: async (context) => {
    const sandbox = await byName(context);
    const { files } = await context.shared();
    const path = "/home/user/signed é+&.txt";
    const up = await viaHost(context, await sandbox.uploadUrl(path, { useSignatureExpiration: 60 }), {
      method: "POST",
      body: form("by address"),
    });
    assert.equal(up.status, 200, up.text);
    assert.equal(await files.read(path), "by address");
    const down = await viaHost(context, await sandbox.downloadUrl(path, { useSignatureExpiration: 60 }));
    assert.deepEqual([down.status, down.text], [200, "by address"]);
    const forever = await viaHost(context, await sandbox.downloadUrl(path));
    assert.deepEqual([forever.status, forever.text], [200, "by address"]);
    const asRoot = await viaHost(context, await sandbox.uploadUrl("signed-root.txt", { user: "root" }), {
      method: "POST",
      body: form("root's"),
    });
    assert.equal(asRoot.status, 200, asRoot.text);
    assert.equal(await files.read("/root/signed-root.txt", { user: "root" }), "root's");
  },

  FL16: async (context) => {
    const sandbox = await byName(context);
    await (await context.shared()).files.write("/home/user/secret.txt", "s");
    const good = await sandbox.downloadUrl("/home/user/secret.txt");
    const expired = await sandbox.downloadUrl("/home/user/secret.txt", { useSignatureExpiration: -10 });
    assert.deepEqual(await viaHost(context, expired), {
      status: 401,
      text: JSON.stringify({ code: 401, message: "signature is already expired" }),
    });
    const cases: readonly [string, Parameters<typeof viaHost>[2]][] = [
      [good, { query: { path: "/etc/passwd" } }],
      [good, { query: { username: "root" } }],
      [good, { query: { signature: "v1_AAAA" } }],
      [good, { query: { signature: "" } }],
      [good, { method: "POST", body: form("overwritten") }],
      [await sandbox.uploadUrl("/home/user/secret.txt"), {}],
    ];
    for (const [address, choices] of cases) {
      const reply = await viaHost(context, address, choices);
      assert.equal(reply.status, 401, `${JSON.stringify(choices?.query)} ${reply.text}`);
      assert.equal((JSON.parse(reply.text) as { code: number }).code, 401);
    }
  },

  FL17: async (context) => {
    const { files, commands } = await context.shared();
    const data = randomBytes(32 << 20);
    const digest = createHash("sha256").update(data).digest("hex");
    await files.write("/tmp/large", new Blob([data]).stream());
    assert.equal((await commands.run("sha256sum /tmp/large")).stdout.split(" ")[0], digest, "up");
    const hash = createHash("sha256");
    for await (const part of await files.read("/tmp/large", { format: "stream" })) {
      hash.update(part);
    }
    assert.equal(hash.digest("hex"), digest, "down");
    await files.remove("/tmp/large");
  },

  FL18: async (context) => {
    const { files } = await context.shared();
    const paths = Array.from({ length: 50 }, (_unused, index) => `/home/user/shared/new/folder/${index}.txt`);
    await Promise.all(paths.map((path) => files.write(path, path)));
    assert.equal((await files.list("/home/user/shared/new/folder")).length, 50);
    assert.equal(await files.read(paths[17] ?? ""), paths[17]);
  },

  FL19: async (context) => {
    const { files } = await context.shared();
    await files.makeDir("/home/user/watched/sub");
    const missing = files.watchDir("/home/user/never/was", () => undefined);
    await rejects(missing, context.sdk.FileNotFoundError);
    const seen: string[] = [];
    const watch = await files.watchDir("/home/user/watched", (event) => void seen.push(`${event.type} ${event.name}`), {
      recursive: true,
    });
    await files.write("/home/user/watched/sub/f.txt", "x");
    await files.rename("/home/user/watched/sub/f.txt", "/home/user/watched/g.txt");
    await files.remove("/home/user/watched/g.txt");
    await files.makeDir("/home/user/watched/later");
    await delay(300);
    await files.write("/home/user/watched/later/h.txt", "y");
    const wanted = [
      "create sub/f.txt",
      "write sub/f.txt",
      "rename sub/f.txt",
      "create g.txt",
      "remove g.txt",
      "create later",
      "create later/h.txt",
    ];
    for (let tries = 0; tries < 50 && !wanted.every((event) => seen.includes(event)); tries += 1) {
      await delay(100);
    }
    await watch.stop();
    for (const event of wanted) {
      assert.ok(seen.includes(event), `no "${event}" among ${seen.join(", ")}`);
    }
  },
};
