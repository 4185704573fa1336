import { mkdtemp, open, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect, describe, it } from "vitest";

import { createLibcLoader } from "../system/libc.ts";
import { startGuest, type TestGuest } from "../testing/guest.ts";
import { sh } from "../testing/run.ts";

const OCTETS = { "content-type": "application/octet-stream" };
const libc = createLibcLoader(() => import("koffi"));

/** Whether the file system of temporary files has extended attributes, and this system the means. */
async function hasAttributes(): Promise<boolean> {
  const directory = await mkdtemp(join(tmpdir(), "envd-attributes-"));
  await using file = await open(join(directory, "f"), "w");
  try {
    (await libc()).setAttribute(file.fd, "user.e2b.probe", Buffer.from("x"));
    return true;
  } catch {
    return false;
  } finally {
    await rm(directory, { recursive: true });
  }
}

async function metadataOf(guest: TestGuest, path: string, binary = false): Promise<Record<string, string> | undefined> {
  return (await guest.filesystem({ binary }).stat({ path })).entry?.metadata;
}

/** Sets an attribute the way another program of the guest does. */
async function setByHand(path: string, name: string, value: Buffer | string): Promise<void> {
  await using file = await open(path, "r");
  (await libc()).setAttribute(file.fd, name, Buffer.from(value));
}

describe.runIf(await hasAttributes())("file metadata", () => {
  it("is stored by an upload and shown wherever the file is", async () => {
    await using guest = await startGuest();
    const headers = { ...OCTETS, "X-Metadata-Author": "somebody", "x-metadata-build-id": "42", "x-metadata-empty": "" };
    const metadata = { author: "somebody", "build-id": "42", empty: "" };
    const reply = await guest.call("POST", "/files?path=f", { headers, body: "x" });
    expect(reply.json()).toEqual([{ path: join(guest.home, "f"), name: "f", type: "file", metadata }]);
    await symlink("f", join(guest.home, "link"));
    for (const binary of [false, true]) {
      for (const path of ["f", "link"]) expect(await metadataOf(guest, path, binary)).toEqual(metadata);
    }
    const { entries } = await guest.filesystem().listDir({});
    expect(entries.map((entry) => entry.metadata)).toEqual([metadata, metadata]);
    const { entry } = await guest.filesystem().move({ source: "f", destination: "g" });
    expect(entry?.metadata).toEqual(metadata);
    expect(guest.logs).toEqual([]);
  });

  it("of a key that is given twice is the first", async () => {
    await using guest = await startGuest();
    const headers = { ...OCTETS, "x-metadata-a": ["1", "2"] };
    await guest.call("POST", "/files?path=f", { headers, body: "x" });
    expect(await metadataOf(guest, "f", false)).toEqual({ a: "1" });
  });

  it("is replaced as a whole by the next upload, and cleared by one without", async () => {
    await using guest = await startGuest();
    const put = (headers: Record<string, string>) =>
      guest.call("POST", "/files?path=f", { headers: { ...OCTETS, ...headers }, body: "x" });
    await put({ "x-metadata-a": "1", "x-metadata-b": "2" });
    await put({ "x-metadata-b": "3", "x-metadata-c": "4" });
    expect(await metadataOf(guest, "f")).toEqual({ b: "3", c: "4" });
    await setByHand(join(guest.home, "f"), "user.other", "kept");
    expect((await put({})).json()).toEqual([{ path: join(guest.home, "f"), name: "f", type: "file" }]);
    expect(await metadataOf(guest, "f")).toEqual({});
    expect((await libc()).listAttributes(join(guest.home, "f"))).toContain("user.other");
  });

  it("goes to each file of a multipart upload", async () => {
    await using guest = await startGuest();
    const part = (name: string) =>
      `--b\r\ncontent-disposition: form-data; name="file"; filename="${name}"\r\n\r\n${name}\r\n`;
    const headers = { "content-type": "multipart/form-data; boundary=b", "x-metadata-a": "1" };
    const reply = await guest.call("POST", "/files", { headers, body: `${part("x")}${part("y")}--b--\r\n` });
    expect(reply.json()).toMatchObject([{ metadata: { a: "1" } }, { metadata: { a: "1" } }]);
    expect(await metadataOf(guest, "y")).toEqual({ a: "1" });
  });

  it("may be set in the guest, on directories as well; what is no text is left out", async () => {
    await using guest = await startGuest();
    const path = join(guest.home, "f");
    await writeFile(path, "");
    await setByHand(path, "user.e2b.author", "é🙂");
    await setByHand(path, "user.e2b.__proto__", "plain");
    await setByHand(path, "user.e2b.broken", Buffer.from([0xff, 0xfe]));
    await setByHand(path, "user.e2", "too short a name");
    await setByHand(guest.home, "user.e2b.home", "yes");
    const metadata = await metadataOf(guest, "f");
    expect(new Map(Object.entries(metadata ?? {}))).toEqual(
      new Map([
        ["__proto__", "plain"],
        ["author", "é🙂"],
      ]),
    );
    expect(await metadataOf(guest, "")).toEqual({ home: "yes" });
  });

  it("holds a value of some thousand bytes, and says 507 when the file system has no room for it", async () => {
    await using guest = await startGuest();
    const put = (value: string) =>
      guest.call("POST", "/files?path=f", { headers: { ...OCTETS, "x-metadata-a": value }, body: "x" });
    const fits = "v".repeat(3000);
    expect((await put(fits)).status).toBe(200);
    expect(await metadataOf(guest, "f")).toEqual({ a: fits });
    // Up to 4096 bytes in all are asked for; what a file system takes is its own matter.
    const most = "v".repeat(4096 - 9 - 1);
    const reply = await put(most);
    expect([200, 507]).toContain(reply.status);
    expect(await metadataOf(guest, "f")).toEqual(reply.status === 200 ? { a: most } : { a: fits });
  });

  it("of uploads to one file at the same time is that of one of them", async () => {
    await using guest = await startGuest();
    await Promise.all(
      Array.from({ length: 20 }, (_, at) =>
        guest.call("POST", "/files?path=f", { headers: { ...OCTETS, [`x-metadata-k${at}`]: String(at) }, body: "x" }),
      ),
    );
    const entries = Object.entries((await metadataOf(guest, "f")) ?? {});
    expect(entries).toHaveLength(1);
    expect(entries[0]?.[0]).toBe(`k${entries[0]?.[1]}`);
  });
});

describe("where there is no metadata", () => {
  it("nothing is shown for what has none by its kind", async () => {
    await using guest = await startGuest();
    await sh(guest.process(), "mkfifo fifo; ln -s nowhere broken");
    for (const path of ["fifo", "broken", "/dev/null"]) expect(await metadataOf(guest, path)).toEqual({});
  });
});
