import { createHash, randomBytes } from "node:crypto";
import { chmod, mkdir, readFile, stat, symlink, utimes, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { gunzipSync, gzipSync } from "node:zlib";

import { fileSignature } from "@org/envd-client";
import { describe, expect, it } from "vitest";

import { isRoot, startGuest, type TestGuest, userId } from "../testing/guest.ts";
import { sh } from "../testing/run.ts";

const BOUNDARY = "----test-boundary";

function part(disposition: string, content: string | Uint8Array): Buffer {
  return Buffer.concat([
    Buffer.from(
      `--${BOUNDARY}\r\nContent-Disposition: ${disposition}\r\nContent-Type: application/octet-stream\r\n\r\n`,
    ),
    Buffer.from(content),
    Buffer.from("\r\n"),
  ]);
}

function multipart(...parts: Buffer[]): { headers: Record<string, string>; body: Buffer } {
  return {
    headers: { "content-type": `multipart/form-data; boundary=${BOUNDARY}` },
    body: Buffer.concat([...parts, Buffer.from(`--${BOUNDARY}--\r\n`)]),
  };
}

function file(filename: string, content: string | Uint8Array): Buffer {
  return part(`form-data; name="file"; filename="${filename}"`, content);
}

const OCTETS = { "content-type": "application/octet-stream" };
const query = (path: string): string => `/files?path=${encodeURIComponent(path)}`;

describe("GET /files", () => {
  it("sends every byte, by path of every kind, with the headers of a file", async () => {
    await using guest = await startGuest();
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, index) => index));
    await writeFile(join(guest.home, "ü b.bin"), bytes);
    for (const path of [
      "ü b.bin",
      "~/ü b.bin",
      join(guest.home, "ü b.bin"),
      `${guest.home}//x/../ü b.bin`.replace("x/../", ""),
    ]) {
      const reply = await guest.call("GET", query(path));
      expect([reply.status, reply.body.equals(bytes)]).toEqual([200, true]);
      expect(reply.headers).toMatchObject({
        "content-disposition": "inline; filename*=UTF-8''%C3%BC%20b.bin",
        "content-length": "256",
        "content-type": "application/octet-stream",
        "accept-ranges": "bytes",
        vary: "Accept-Encoding",
        "last-modified": expect.stringMatching(/GMT$/),
      });
    }
  });

  it.each([
    ["a missing file", "none", 404, (home: string) => `path '${home}/none' does not exist`],
    ["a directory", "dir", 400, (home: string) => `path '${home}/dir' is a directory`],
    ["no path, which is the home", "", 400, (home: string) => `path '${home}' is a directory`],
    ["another's home", "~root", 400, () => "cannot expand the home of another user in '~root'"],
    ["a NUL", "a\0", 400, () => "path must not contain a NUL byte"],
    ["a fifo", "fifo", 400, (home: string) => `path '${home}/fifo' is not a regular file`],
    ["a device", "/dev/zero", 400, () => "path '/dev/zero' is not a regular file"],
    ["a path below a file", "file/x", 500, (home: string) => `cannot open '${home}/file/x': ENOTDIR`],
  ])("refuses %s", async (_what, path, status, message) => {
    await using guest = await startGuest();
    await mkdir(join(guest.home, "dir"));
    await writeFile(join(guest.home, "file"), "");
    await sh(guest.process(), "mkfifo fifo");
    const reply = await guest.call("GET", query(path));
    expect([reply.status, reply.json()]).toEqual([status, { code: status, message: message(guest.home) }]);
    expect(reply.headers).toMatchObject({
      "content-type": "application/json; charset=utf-8",
      "x-content-type-options": "nosniff",
    });
  });

  it("acts for the user in the query", async () => {
    await using guest = await startGuest();
    await writeFile(join(guest.rootHome, "mine"), "root's");
    expect((await guest.call("GET", "/files?path=mine&username=root")).text).toBe("root's");
    const reply = await guest.call("GET", "/files?path=mine&username=ghost");
    expect([reply.status, reply.json()]).toEqual([
      401,
      { code: 401, message: "error looking up user 'ghost': unknown user" },
    ]);
  });

  it.each(["identity", "gzip, deflate", "gzip", "br", "*"])(
    "sends an empty file for Accept-Encoding %s",
    async (wish) => {
      await using guest = await startGuest();
      await writeFile(join(guest.home, "empty"), "");
      const reply = await guest.call("GET", query("empty"), { headers: { "accept-encoding": wish } });
      expect([reply.status, reply.headers["content-length"], reply.body.length]).toEqual([200, "0", 0]);
    },
  );

  it("sends files that have content but no size", async () => {
    await using guest = await startGuest();
    for (const wish of ["identity", "gzip"]) {
      const reply = await guest.call("GET", query("/proc/self/status"), { headers: { "accept-encoding": wish } });
      const text = wish === "gzip" ? gunzipSync(reply.body).toString() : reply.text;
      expect(text).toContain("Name:");
    }
  });

  it("compresses with gzip when that is wished for, and not for ranges", async () => {
    await using guest = await startGuest();
    const text = "compress me ".repeat(10_000);
    await writeFile(join(guest.home, "text.txt"), text);
    const gzip = { "accept-encoding": "gzip, deflate" };
    const reply = await guest.call("GET", query("text.txt"), { headers: gzip });
    expect(reply.headers).toMatchObject({
      "content-encoding": "gzip",
      "content-type": "text/plain; charset=utf-8",
      vary: "Accept-Encoding",
    });
    expect(reply.headers["content-length"]).toBeUndefined();
    expect(reply.body.length).toBeLessThan(text.length / 10);
    expect(gunzipSync(reply.body).toString()).toBe(text);
    const slice = await guest.call("GET", query("text.txt"), { headers: { ...gzip, range: "bytes=9-10" } });
    expect([slice.status, slice.text, slice.headers["content-encoding"]]).toEqual([206, "me", undefined]);
    const refused = await guest.call("GET", query("text.txt"), {
      headers: { "accept-encoding": "gzip, identity;q=0", range: "bytes=0-1" },
    });
    expect([refused.status, refused.json()]).toMatchObject([406, { code: 406 }]);
  });

  it.each([
    ["bytes=0-0", 206, "0", "bytes 0-0/10"],
    ["bytes=5-", 206, "56789", "bytes 5-9/10"],
    ["bytes=-3", 206, "789", "bytes 7-9/10"],
    ["bytes=-30", 206, "0123456789", "bytes 0-9/10"],
    ["bytes=8-100", 206, "89", "bytes 8-9/10"],
    ["bytes=10-", 416, undefined, "bytes */10"],
    ["bytes=-0", 416, undefined, "bytes */10"],
    ["bytes=5-4", 200, "0123456789", undefined],
    ["bytes=0-1,3-4", 200, "0123456789", undefined],
    ["lines=0-1", 200, "0123456789", undefined],
    ["bytes=a-b", 200, "0123456789", undefined],
  ])("answers the range %s with %i", async (range, status, text, contentRange) => {
    await using guest = await startGuest();
    await writeFile(join(guest.home, "ten"), "0123456789");
    const reply = await guest.call("GET", query("ten"), { headers: { range } });
    expect([reply.status, reply.headers["content-range"]]).toEqual([status, contentRange]);
    if (text === undefined) expect(reply.json()).toMatchObject({ code: 416 });
    else {
      expect(reply.text).toBe(text);
      expect(reply.headers["content-type"]).toBe("text/plain; charset=utf-8");
      expect(reply.headers["content-length"]).toBe(String(text.length));
    }
  });

  it("answers conditions by the time of the last change", async () => {
    await using guest = await startGuest();
    const path = join(guest.home, "dated");
    await writeFile(path, "content");
    await utimes(path, 1_700_000_000.7, 1_700_000_000.7);
    const at = (seconds: number): string => new Date(seconds * 1000).toUTCString();
    const status = async (headers: Record<string, string>): Promise<number> =>
      (await guest.call("GET", query(path), { headers })).status;
    expect(await status({ "if-modified-since": at(1_700_000_000) })).toBe(304);
    expect(await status({ "if-modified-since": at(1_699_999_999) })).toBe(200);
    expect(await status({ "if-modified-since": "no date" })).toBe(200);
    expect(await status({ "if-unmodified-since": at(1_699_999_999) })).toBe(412);
    expect(await status({ "if-unmodified-since": at(1_700_000_000) })).toBe(200);
    expect(await status({ range: "bytes=0-1", "if-range": at(1_700_000_000) })).toBe(206);
    expect(await status({ range: "bytes=0-1", "if-range": at(1_699_999_999) })).toBe(200);
    expect(await status({ range: "bytes=0-1", "if-range": '"etag"' })).toBe(200);
  });

  it("gives slow readers every byte, with and without keep-alive", async () => {
    await using guest = await startGuest();
    const bytes = randomBytes(8 * 1024 * 1024);
    await writeFile(join(guest.home, "big"), bytes);
    const wanted = createHash("sha256").update(bytes).digest("hex");
    for (const connection of ["close", "keep-alive"]) {
      const hash = createHash("sha256");
      await new Promise<void>((resolve, reject) => {
        const req = request({ port: guest.port, path: query("big"), headers: { connection }, agent: false });
        req.on("error", reject);
        req.on("response", (res) => {
          res.on("data", (chunk: Buffer) => {
            hash.update(chunk);
            res.pause();
            setTimeout(() => res.resume(), 1);
          });
          res.on("error", reject);
          res.on("end", resolve);
        });
        req.end();
      });
      expect(hash.digest("hex")).toBe(wanted);
    }
  });

  it("cuts the connection rather than pass a part for the whole", async () => {
    await using guest = await startGuest();
    const path = join(guest.home, "shrinking");
    await writeFile(path, Buffer.alloc(64 * 1024 * 1024));
    const outcome = await new Promise<string>((resolve) => {
      const req = request({ port: guest.port, path: query("shrinking"), agent: false });
      req.on("error", () => resolve("error"));
      req.on("response", (res) => {
        res.once("data", () => {
          res.pause();
          void writeFile(path, "").then(() => res.resume());
        });
        res.on("error", () => resolve("cut"));
        res.on("end", () => resolve(res.complete ? "complete" : "cut"));
      });
      req.end();
    });
    expect(outcome).toBe("cut");
  });

  it("forgets readers that hang up after the head", async () => {
    await using guest = await startGuest();
    await writeFile(join(guest.home, "big"), Buffer.alloc(32 * 1024 * 1024));
    const openFiles = async (): Promise<number> =>
      Number(
        (
          await sh(guest.process(), `ls -l /proc/${process.pid}/fd | grep -c "/home/user/big" || true`)
        ).stdout.toString(),
      );
    await Promise.all(
      Array.from(
        { length: 50 },
        () =>
          new Promise<void>((resolve) => {
            const socket = connect(guest.port, "127.0.0.1", () => {
              socket.write(`GET ${query("big")} HTTP/1.1\r\nhost: x\r\n\r\n`);
              socket.once("data", () => socket.destroy());
            });
            socket.on("error", () => undefined);
            socket.on("close", () => resolve());
          }),
      ),
    );
    if (process.platform === "linux") await expect.poll(openFiles, { timeout: 5000 }).toBe(0);
    expect((await guest.call("GET", "/health")).status).toBe(204);
  });
});

describe("POST /files", () => {
  it("stores every byte of an octet stream, and of parts, for the user with mode 0644", async () => {
    await using guest = await startGuest();
    const bytes = randomBytes(300_000);
    const octets = await guest.call("POST", query("new/dir/one"), { headers: OCTETS, body: bytes });
    expect(octets.json()).toEqual([{ path: join(guest.home, "new/dir/one"), name: "one", type: "file" }]);
    const parts = await guest.call(
      "POST",
      "/files",
      multipart(file("two", bytes), file("deep/three", "3"), file("four", "")),
    );
    expect(parts.json()).toEqual(
      ["two", "deep/three", "four"].map((path) => ({
        path: join(guest.home, path),
        name: path.split("/").at(-1),
        type: "file",
      })),
    );
    expect((await readFile(join(guest.home, "new/dir/one"))).equals(bytes)).toBe(true);
    expect((await readFile(join(guest.home, "two"))).equals(bytes)).toBe(true);
    for (const [path, mode] of [
      ["new", 0o755],
      ["new/dir/one", 0o644],
      ["two", 0o644],
      ["four", 0o644],
    ] as const) {
      const stats = await stat(join(guest.home, path));
      expect([path, stats.mode & 0o777, stats.uid]).toEqual([path, mode, userId]);
    }
  });

  it("truncates a file that is there, keeps its mode and gives it to the user", async () => {
    await using guest = await startGuest();
    const path = join(guest.home, "script");
    await writeFile(path, "a longer content");
    await chmod(path, 0o750);
    await symlink(path, join(guest.home, "link"));
    await guest.call("POST", query("link"), { headers: OCTETS, body: "short" });
    const stats = await stat(path);
    expect([await readFile(path, "utf8"), stats.mode & 0o777, stats.uid]).toEqual(["short", 0o750, userId]);
  });

  it.each([
    [`form-data; name="file"; filename="a/b c.txt"`, "a/b c.txt"],
    [`form-data; name="file"; filename="ü漢🙂.txt"`, "ü漢🙂.txt"],
    [`form-data; name="file"; filename="say %22hi%22.txt"`, "say %22hi%22.txt"],
    [`form-data; filename="x"; name="file"`, "x"],
    [`form-data; name=file; filename=plain`, "plain"],
    [`form-data; name="file"; filename*=UTF-8''%e2%82%ac`, "€"],
    [`form-data; name="file"; filename="~/home"`, "home"],
  ])("takes the path of `%s`", async (disposition, path) => {
    await using guest = await startGuest();
    const reply = await guest.call("POST", "/files", multipart(part(disposition, "x")));
    expect([reply.status, reply.json()]).toEqual([
      200,
      [{ path: join(guest.home, path), name: path.split("/").at(-1), type: "file" }],
    ]);
    expect(await readFile(join(guest.home, path), "utf8")).toBe("x");
  });

  it("takes the query's path over the part's, also for a part without a filename", async () => {
    await using guest = await startGuest();
    for (const disposition of [`form-data; name="file"; filename="ignored"`, `form-data; name="file"`]) {
      const reply = await guest.call("POST", query("target"), multipart(part(disposition, disposition)));
      expect(reply.status).toBe(200);
      expect(await readFile(join(guest.home, "target"), "utf8")).toBe(disposition);
    }
  });

  it("ignores parts of other names, however large", async () => {
    await using guest = await startGuest();
    const other = part(`form-data; name="other"; filename="other"`, Buffer.alloc(5_000_000));
    const reply = await guest.call(
      "POST",
      "/files",
      multipart(other, file("kept", "1"), part(`form-data; name="x"`, "2")),
    );
    expect(reply.json()).toMatchObject([{ name: "kept" }]);
    await expect(stat(join(guest.home, "other"))).rejects.toThrow();
  });

  it("unpacks gzip bodies, of both kinds", async () => {
    await using guest = await startGuest();
    const text = "packed ".repeat(100_000);
    const gzip = { "content-encoding": "gzip" };
    await guest.call("POST", query("a"), { headers: { ...OCTETS, ...gzip }, body: gzipSync(text) });
    const form = multipart(file("b", text));
    await guest.call("POST", "/files", { headers: { ...form.headers, ...gzip }, body: gzipSync(form.body) });
    for (const name of ["a", "b"]) expect(await readFile(join(guest.home, name), "utf8")).toBe(text);
  });

  it("stops at the first part that fails and keeps the earlier ones", async () => {
    await using guest = await startGuest();
    await mkdir(join(guest.home, "dir"));
    const form = multipart(file("first", "1"), file("dir", Buffer.alloc(1_000_000)), file("third", "3"));
    const reply = await guest.call("POST", "/files", form);
    expect([reply.status, reply.json()]).toEqual([
      400,
      { code: 400, message: `path '${guest.home}/dir' is a directory` },
    ]);
    expect(await readFile(join(guest.home, "first"), "utf8")).toBe("1");
    await expect(stat(join(guest.home, "third"))).rejects.toThrow();
    const twice = await guest.call("POST", "/files", multipart(file("same", "1"), file("./same", "2")));
    expect([twice.status, twice.json()]).toMatchObject([400, { message: `path '${guest.home}/same' is given twice` }]);
    expect(await readFile(join(guest.home, "same"), "utf8")).toBe("1");
    const spelled = multipart(file(`${guest.home}/one`, "1"), file(`${guest.home}//x/../one`, "2"));
    expect((await guest.call("POST", "/files", spelled)).status).toBe(400);
  });

  it.each<[string, string, Record<string, string>, string | Buffer, number, RegExp]>([
    [
      "an unknown type",
      query("x"),
      { "content-type": "text/plain" },
      "x",
      400,
      /unsupported content type: text\/plain/,
    ],
    ["no type", query("x"), {}, "x", 400, /unsupported content type/],
    ["an octet stream without a path", "/files", OCTETS, "x", 400, /path is required/],
    ["an unknown encoding", query("x"), { ...OCTETS, "content-encoding": "br" }, "x", 400, /content encoding: br/],
    [
      "a body that is not gzip",
      query("x"),
      { ...OCTETS, "content-encoding": "gzip" },
      "plain",
      400,
      /cannot read the body/,
    ],
    [
      "gzip cut short",
      query("x"),
      { ...OCTETS, "content-encoding": "gzip" },
      gzipSync("x".repeat(1000)).subarray(0, 15),
      400,
      /cannot read the body/,
    ],
    [
      "a part without a filename",
      "/files",
      multipart().headers,
      multipart(part(`form-data; name="file"`, "x")).body,
      400,
      /path query/,
    ],
    ["multipart without a boundary", "/files", { "content-type": "multipart/form-data" }, "x", 400, /multipart body/],
    [
      "multipart cut short",
      "/files",
      multipart().headers,
      multipart(file("x", "y".repeat(99))).body.subarray(0, 150),
      400,
      /cannot read the (multipart )?body/,
    ],
    ["multipart that is none", "/files", multipart().headers, "nothing of the kind", 400, /multipart body/],
    ["a directory", query("."), OCTETS, "x", 400, /is a directory/],
    ["a parent that is a file", query("file/x"), OCTETS, "x", 500, /cannot write/],
    ["a fifo", query("fifo"), OCTETS, "x", 400, /not a regular file/],
    [
      "a metadata value that is not ASCII",
      query("x"),
      { ...OCTETS, "x-metadata-a": "\xe9" },
      "x",
      400,
      /printable ASCII/,
    ],
    ["metadata over the limit", query("x"), { ...OCTETS, "x-metadata-a": "v".repeat(4087) }, "x", 400, /4097 bytes/],
    ["far more of it", query("x"), { ...OCTETS, "x-metadata-a": "v".repeat(60_000) }, "x", 400, /at most 4096/],
    [
      "a metadata key over the limit",
      query("x"),
      { ...OCTETS, [`x-metadata-${"k".repeat(247)}`]: "v" },
      "x",
      400,
      /246/,
    ],
  ])("refuses %s", async (_what, path, headers, body, status, message) => {
    await using guest = await startGuest();
    await writeFile(join(guest.home, "file"), "");
    await sh(guest.process(), "mkfifo fifo");
    const reply = await guest.call("POST", path, { headers, body });
    expect([reply.status, reply.json()]).toEqual([status, { code: status, message: expect.stringMatching(message) }]);
  });

  it("takes fifty uploads into one new directory at once", async () => {
    await using guest = await startGuest();
    const replies = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        guest.call("POST", query(`a/b/c/${index}`), { headers: OCTETS, body: String(index) }),
      ),
    );
    expect(replies.map(({ status }) => status)).toEqual(replies.map(() => 200));
    const listed = await guest.filesystem().listDir({ path: "a/b/c" });
    expect(listed.entries).toHaveLength(50);
    expect(listed.entries.every(({ size, name }) => Number(size) === name.length)).toBe(true);
  });

  it("survives a client that leaves in the middle, and closes the file", async () => {
    await using guest = await startGuest();
    for (const headers of [OCTETS, multipart().headers]) {
      const req = request({ port: guest.port, method: "POST", path: query("part"), headers, agent: false });
      req.on("error", () => undefined);
      req.write(headers === OCTETS ? Buffer.alloc(600_000) : file("x", Buffer.alloc(600_000)));
      await expect
        .poll(async () => (await stat(join(guest.home, "part")).catch(() => undefined))?.size ?? 0)
        .toBeGreaterThan(0);
      req.destroy();
      await sleep(50);
    }
    expect((await guest.call("POST", query("part"), { headers: OCTETS, body: "whole" })).status).toBe(200);
    expect(await readFile(join(guest.home, "part"), "utf8")).toBe("whole");
  });

  it.runIf(isRoot && process.platform === "linux")("answers 507 when the disk is full (as root only)", async () => {
    await using guest = await startGuest({ defaultUser: "root" });
    const mounted = await sh(guest.process(), "mkdir small && mount -t tmpfs -o size=64k tmpfs small");
    if ((mounted.end as { exitCode?: number }).exitCode !== undefined) return;
    try {
      const reply = await guest.call("POST", query("small/x"), { headers: OCTETS, body: Buffer.alloc(1_000_000) });
      expect([reply.status, reply.json()]).toEqual([
        507,
        { code: 507, message: `cannot write '${guest.rootHome}/small/x': no space left on the disk` },
      ]);
    } finally {
      await sh(guest.process(), "umount small");
    }
  });
});

describe("signed addresses", () => {
  const TOKEN = "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0";
  const NOW = 1_700_000_000;

  async function signedGuest(): Promise<TestGuest> {
    const guest = await startGuest({ accessToken: TOKEN, now: () => NOW * 1000 });
    await writeFile(join(guest.home, "hello.txt"), "hi");
    return guest;
  }

  function address(
    change: Record<string, string | undefined>,
    signed: Partial<Parameters<typeof fileSignature>[0]> = {},
  ): string {
    const signature = fileSignature({
      path: "hello.txt",
      operation: "read",
      username: "user",
      accessToken: TOKEN,
      ...signed,
    });
    const fields = { path: "hello.txt", username: "user", signature, ...change };
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(fields)) if (value !== undefined) search.set(name, value);
    return `/files?${search.toString()}`;
  }

  it("open the file they were made for", async () => {
    await using guest = await signedGuest();
    const cases: [Parameters<typeof address>[0], Parameters<typeof address>[1]][] = [
      [{}, {}],
      [{ username: undefined }, { username: undefined }],
      [{ signature_expiration: String(NOW + 10) }, { expiration: NOW + 10 }],
      [{ signature_expiration: String(NOW) }, { expiration: NOW }],
    ];
    for (const [change, signed] of cases) {
      const reply = await guest.call("GET", address(change, signed));
      expect([reply.status, reply.text]).toEqual([200, "hi"]);
    }
    const body = { headers: OCTETS, body: "written" };
    expect((await guest.call("POST", address({}, { operation: "write" }), body)).status).toBe(200);
    expect(await readFile(join(guest.home, "hello.txt"), "utf8")).toBe("written");
  });

  const invalid = "invalid signature";
  it.each<[string, string, Record<string, string>, string]>([
    ["no signature", address({ signature: undefined }), {}, "missing signature query parameter"],
    ["an empty signature", address({ signature: "" }), {}, "missing signature query parameter"],
    ["one of another length", address({ signature: "v1_short" }), {}, invalid],
    ["one for another path", address({ path: "other.txt" }), {}, invalid],
    ["one for writing", address({}, { operation: "write" }), {}, invalid],
    ["one for another user", address({ username: "root" }), {}, invalid],
    ["one with another token", address({}, { accessToken: "other" }), {}, invalid],
    ["a limit that was not signed", address({ signature_expiration: String(NOW + 5) }), {}, invalid],
    ["a limit that was removed", address({}, { expiration: NOW + 5 }), {}, invalid],
    [
      "a limit in the past",
      address({ signature_expiration: String(NOW - 1) }, { expiration: NOW - 1 }),
      {},
      "signature is already expired",
    ],
    ["a limit of 0", address({ signature_expiration: "0" }, { expiration: 0 }), {}, "signature is already expired"],
    [
      "a negative limit",
      address({ signature_expiration: "-5" }, { expiration: -5 }),
      {},
      "signature is already expired",
    ],
    ["a limit that is no number", address({ signature_expiration: "soon" }), {}, invalid],
    ["a limit with a fraction", address({ signature_expiration: "1.5" }, { expiration: 1.5 }), {}, invalid],
    [
      "a wrong token, signature or not",
      address({}),
      { "x-access-token": "wrong" },
      "access token present in header but does not match",
    ],
    ["an empty token", address({}), { "x-access-token": "" }, "access token present in header but does not match"],
  ])("are refused with %s", async (_what, path, headers, message) => {
    await using guest = await signedGuest();
    const reply = await guest.call("GET", path, { headers });
    expect([reply.status, reply.json()]).toEqual([401, { code: 401, message }]);
  });

  it("are not needed with the token, nor while none is set", async () => {
    await using guest = await signedGuest();
    expect((await guest.call("GET", query("hello.txt"), { headers: { "x-access-token": TOKEN } })).text).toBe("hi");
    await using open = await startGuest();
    await writeFile(join(open.home, "hello.txt"), "open");
    expect((await open.call("GET", address({ signature: "v1_anything" }))).text).toBe("open");
  });
});
