import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32, deflateRawSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";

import { readZipEntry } from "./zip-entry.ts";

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "zip-entry-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** An archive of files, each by a method of its own, with a comment at its end. */
function archiveOf(
  files: readonly { readonly name: string; readonly text: string; readonly method: number }[],
): Buffer {
  const bodies: Buffer[] = [];
  const directory: Buffer[] = [];
  let at = 0;
  for (const { name, text, method } of files) {
    const bytes = method === 8 ? deflateRawSync(text) : Buffer.from(text);
    const sizes = Buffer.alloc(12);
    sizes.writeUInt32LE(crc32(text));
    sizes.writeUInt32LE(bytes.length, 4);
    sizes.writeUInt32LE(Buffer.byteLength(text), 8);
    const local = Buffer.alloc(30);
    local.writeUInt32LE(0x04034b50);
    local.writeUInt16LE(method, 8);
    sizes.copy(local, 14);
    local.writeUInt16LE(name.length, 26);
    local.writeUInt16LE(3, 28);
    const entry = Buffer.alloc(46);
    entry.writeUInt32LE(0x02014b50);
    entry.writeUInt16LE(method, 10);
    sizes.copy(entry, 16);
    entry.writeUInt16LE(name.length, 28);
    entry.writeUInt16LE(2, 30);
    entry.writeUInt32LE(at, 42);
    const body = Buffer.concat([local, Buffer.from(name), Buffer.from("xyz"), bytes]);
    bodies.push(body);
    directory.push(entry, Buffer.from(name), Buffer.from("ab"));
    at += body.length;
  }
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50);
  end.writeUInt32LE(Buffer.concat(directory).length, 12);
  end.writeUInt32LE(at, 16);
  end.writeUInt16LE(4, 20);
  return Buffer.concat([...bodies, ...directory, end, Buffer.from("note")]);
}

test("a file is found behind others, whichever way it is packed", async () => {
  const path = join(folder, "good.zip");
  const files = [
    { name: "a/one", text: "first", method: 0 },
    { name: "b/two", text: "second ".repeat(1000), method: 8 },
  ];
  await writeFile(path, archiveOf(files));
  for (const { name, text } of files) {
    expect((await readZipEntry(path, name)).toString()).toBe(text);
  }
});

test.each<[string, Buffer, RegExp]>([
  ["what is no archive", Buffer.from("#!/bin/sh\n"), /is no ZIP archive/],
  ["an archive without the file", archiveOf([{ name: "b", text: "", method: 0 }]), /has no a/],
  ["a way of packing that is not known", archiveOf([{ name: "a", text: "", method: 93 }]), /method 93/],
])("%s is refused", async (_what, bytes, message) => {
  const path = join(folder, "bad.zip");
  await writeFile(path, bytes);
  await expect(readZipEntry(path, "a")).rejects.toThrow(message);
});
