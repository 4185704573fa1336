import { appendFile, chmod, mkdir, readFile, rename, rm, rmdir, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { Code, ConnectError } from "@connectrpc/connect";
import { EventType, FileType, type FilesystemEvent } from "@org/envd-client";
import { describe, expect, it } from "vitest";

import type { EnvdOptions } from "../options.ts";
import { startGuest, type TestGuest } from "../testing/guest.ts";
import { envelope, openStream } from "../testing/raw-stream.ts";
import { sh } from "../testing/run.ts";

const OCTETS = { "content-type": "application/octet-stream" };

function text({ type, name }: Pick<FilesystemEvent, "type" | "name">): string {
  return `${EventType[type].toLowerCase()} ${name}`;
}

async function codeOf(call: Promise<unknown>): Promise<[string | undefined, string]> {
  const error = await call.then(
    () => expect.unreachable("the call was expected to fail"),
    (reason: unknown) => ConnectError.from(reason),
  );
  return [Code[error.code], error.rawMessage];
}

interface Polled {
  readonly guest: TestGuest;
  readonly at: (name: string) => string;
  readonly events: () => Promise<string[]>;
}

/** A guest whose home is watched by polling: what was done before a fetch is in it, whatever the machine's load. */
async function watched(
  request: { path?: string; recursive?: boolean; binary?: boolean },
  test: (watch: Polled) => Promise<void>,
): Promise<void> {
  await using guest = await startGuest();
  const client = guest.filesystem({ binary: request.binary ?? false });
  const at = (name: string): string => join(guest.home, name);
  await mkdir(at("w/sub"), { recursive: true });
  const { watcherId } = await client.createWatcher({
    path: request.path ?? "w",
    recursive: request.recursive ?? false,
  });
  const events = async (): Promise<string[]> => (await client.getWatcherEvents({ watcherId })).events.map(text);
  expect(await events()).toEqual([]);
  await test({ guest, at, events });
  await client.removeWatcher({ watcherId });
}

describe("a watched directory", () => {
  it.each<[string, string[], (at: Polled["at"]) => Promise<unknown>]>([
    ["a new empty file", ["create f"], (at) => writeFile(at("w/f"), "")],
    ["a new file", ["create f", "write f"], (at) => writeFile(at("w/f"), "x")],
    ["a new directory", ["create d"], (at) => mkdir(at("w/d"))],
    ["a link", ["create l"], (at) => symlink("nowhere", at("w/l"))],
    ["a mode", ["chmod sub"], (at) => chmod(at("w/sub"), 0o700)],
    ["times", ["chmod sub"], (at) => utimes(at("w/sub"), 1, 1)],
    ["its own mode", ["chmod ."], (at) => chmod(at("w"), 0o700)],
    ["a removed directory", ["remove sub"], (at) => rmdir(at("w/sub"))],
    ["a new name", ["rename sub", "create new"], (at) => rename(at("w/sub"), at("w/new"))],
    ["what leaves", ["rename sub"], (at) => rename(at("w/sub"), at("elsewhere"))],
    ["a file in a sub-directory", [], (at) => writeFile(at("w/sub/f"), "x")],
    ["reading", [], (at) => readFile(at("w/f")).catch(() => undefined)],
  ])("tells of %s", async (_what, expected, act) => {
    await watched({}, async ({ at, events }) => {
      await act(at);
      expect(await events()).toEqual(expected);
      expect(await events()).toEqual([]);
    });
  });

  it.each([{ binary: false }, { binary: true }])(
    "gives exactly three events for an upload, and two for a change (binary: $binary)",
    async (wire) => {
      await watched(wire, async ({ guest, events }) => {
        const path = "/files?path=w/f";
        await guest.call("POST", path, { headers: OCTETS, body: "x".repeat(10_000) });
        expect(await events()).toEqual(["create f", "chmod f", "write f"]);
        await guest.call("POST", path, { headers: OCTETS, body: "" });
        expect(await events()).toEqual(["write f", "chmod f"]);
      });
    },
  );

  it("ends with its removal or its new name, after telling of it", async () => {
    for (const [act, expected] of [
      [(path: string) => rm(path, { recursive: true }), ["remove sub", "remove ."]],
      [(path: string) => rename(path, `${path}-moved`), ["rename ."]],
    ] as const) {
      await watched({}, async ({ at, events }) => {
        await act(at("w"));
        await mkdir(at("w"), { recursive: true });
        await writeFile(at("w/f"), "another directory's");
        expect(await events()).toEqual(expected);
        expect(await events()).toEqual([]);
      });
    }
  });

  it("may be watched by many, each with its own events", async () => {
    await using guest = await startGuest();
    const client = guest.filesystem();
    const ids: string[] = [];
    for (let at = 0; at < 20; at += 1) ids.push((await client.createWatcher({ path: "" })).watcherId);
    expect(new Set(ids).size).toBe(20);
    expect(ids.every((id) => /^w[0-9a-f]{24}$/.test(id))).toBe(true);
    await client.removeWatcher({ watcherId: ids.pop() ?? "" });
    await writeFile(join(guest.home, "f"), "x");
    for (const watcherId of ids) {
      const { events } = await client.getWatcherEvents({ watcherId });
      expect(events.map(text)).toEqual(["create f", "write f"]);
    }
  });

  it("can be named in every way that paths can", async () => {
    for (const path of ["w", "~/w", "./w/../w", "$HOME/w", "$HOME/link"]) {
      await using guest = await startGuest();
      await mkdir(join(guest.home, "w"));
      await symlink("w", join(guest.home, "link"));
      const client = guest.filesystem();
      const { watcherId } = await client.createWatcher({ path: path.replace("$HOME", guest.home) });
      await mkdir(join(guest.home, "w/d"));
      expect((await client.getWatcherEvents({ watcherId })).events.map(text)).toEqual(["create d"]);
    }
  });

  it("is that of the user of the call", async () => {
    await using guest = await startGuest();
    const authorization = `Basic ${Buffer.from("root:").toString("base64")}`;
    const client = guest.filesystem({ headers: { authorization } });
    const { watcherId } = await client.createWatcher({ path: "" });
    await mkdir(join(guest.rootHome, "d"));
    // A watcher belongs to nobody.
    expect((await guest.filesystem().getWatcherEvents({ watcherId })).events.map(text)).toEqual(["create d"]);
  });
});

describe("a tree that is watched", () => {
  it.each<[string, string[], (at: Polled["at"]) => Promise<unknown>]>([
    ["what is in sub-directories", ["create sub/f", "write sub/f"], (at) => writeFile(at("w/sub/f"), "x")],
    ["a directory's mode once", ["chmod sub"], (at) => chmod(at("w/sub"), 0o700)],
    ["a directory's removal once", ["remove sub"], (at) => rmdir(at("w/sub"))],
    [
      "a way up",
      ["create sub/f", "rename sub/f", "create g"],
      async (at) => {
        await writeFile(at("w/sub/f"), "");
        await rename(at("w/sub/f"), at("w/g"));
      },
    ],
    [
      "all levels of a new directory",
      ["create a", "create a/b", "create a/b/c"],
      (at) => mkdir(at("w/a/b/c"), { recursive: true }),
    ],
    [
      "what a new directory already holds",
      ["create a", "create a/f", "write a/f", "create a/g"],
      async (at) => {
        await mkdir(at("new"));
        await writeFile(at("new/f"), "x");
        await writeFile(at("new/g"), "");
        await rename(at("new"), at("w/a"));
      },
    ],
    [
      "a directory under its new name",
      ["create sub/in", "rename sub", "create d", "create d/f", "create d/in/f"],
      async (at) => {
        await mkdir(at("w/sub/in"));
        await rename(at("w/sub"), at("w/d"));
        await writeFile(at("w/d/f"), "");
        await writeFile(at("w/d/in/f"), "");
      },
    ],
    [
      "nothing from a directory that has left",
      ["rename sub", "create sub", "create sub/g"],
      async (at) => {
        await rename(at("w/sub"), at("left"));
        await writeFile(at("left/f"), "");
        await mkdir(at("w/sub"));
        await writeFile(at("w/sub/g"), "");
      },
    ],
    [
      "nothing behind links",
      ["create link"],
      async (at) => {
        await mkdir(at("other"));
        await symlink("../other", at("w/link"));
        await writeFile(at("other/f"), "x");
      },
    ],
  ])("tells of %s", async (_what, expected, act) => {
    await watched({ recursive: true }, async ({ at, events }) => {
      await act(at);
      const seen = await events();
      // The order between a directory and what was found in it is fixed, that of names in it is the system's.
      expect(seen.toSorted()).toEqual(expected.toSorted());
      expect(seen.filter((event) => event.startsWith("create"))[0]).toBe(
        expected.filter((event) => event.startsWith("create"))[0],
      );
      expect(await events()).toEqual([]);
    });
  });

  it("keeps up with directories that come and go as fast as a shell makes them", async () => {
    await watched({ recursive: true }, async ({ guest, at, events }) => {
      const script = `
        for i in $(seq 25); do mkdir -p d$i/x/y; echo $i > d$i/x/y/f; mv d$i m$i; mkdir d$i; echo 2 > d$i/g; done
        echo last > m25/x/y/g`;
      await chmod(at("w"), 0o777);
      const { stderr } = await sh(guest.process(), script, { cwd: at("w") });
      expect(stderr.toString()).toBe("");
      const seen = new Set<string>();
      for (const event of await events()) seen.add(event);
      for (let index = 1; index <= 25; index += 1) {
        const wanted = [`create m${index}`, `create d${index}/g`];
        // Known under the name it had then, or the one it has now.
        expect(seen.has(`create d${index}/x/y/f`) || seen.has(`create m${index}/x/y/f`)).toBe(true);
        expect(wanted.filter((event) => !seen.has(event))).toEqual([]);
      }
      expect(seen.has("write m25/x/y/g")).toBe(true);
      for (const index of [1, 13, 25]) {
        await appendFile(at(`w/m${index}/x/y/f`), "more");
        await appendFile(at(`w/d${index}/g`), "more");
        expect(await events()).toEqual([`write m${index}/x/y/f`, `write d${index}/g`]);
      }
    });
  });

  it("holds many directories, and lets them go", async () => {
    await using guest = await startGuest();
    const client = guest.filesystem();
    await sh(
      guest.process(),
      "mkdir -p many/$(seq -s '/ many/' 40)/{a,b,c}; for i in $(seq 40); do mkdir -p many/$i/x/y; done",
    );
    const { watcherId } = await client.createWatcher({ path: "many", recursive: true });
    await writeFile(join(guest.home, "many/40/x/y/f"), "");
    expect((await client.getWatcherEvents({ watcherId })).events.map(text)).toEqual(["create 40/x/y/f"]);
    expect(await watchesOf()).toBeGreaterThan(80);
    await client.removeWatcher({ watcherId });
    expect(await watchesOf()).toBe(0);
  });
});

/** Directories that this process has the kernel watch through inotify instances. */
async function watchesOf(): Promise<number> {
  const { readdirSync, readFileSync } = await import("node:fs");
  let count = 0;
  for (const fd of readdirSync("/proc/self/fdinfo")) {
    try {
      const info = readFileSync(`/proc/self/fdinfo/${fd}`, "utf8");
      count += info.split("\n").filter((line) => line.startsWith("inotify ")).length;
    } catch {
      // The descriptor of the listing itself.
    }
  }
  return count;
}

describe("WatchDir", () => {
  it("starts at once and then tells what happens, until the client leaves", async () => {
    await using guest = await startGuest();
    const stream = await openStream(
      guest.port,
      "/filesystem.Filesystem/WatchDir",
      envelope({ path: "", recursive: true }),
    );
    expect(stream.res.headers).toMatchObject({ "content-type": "application/connect+json", "x-accel-buffering": "no" });
    expect(stream.res.headers["content-encoding"]).toBeUndefined();
    const frames = stream.frames();
    expect((await frames.next()).value).toEqual({ flags: 0, json: { start: {} } });
    await writeFile(join(guest.home, "f"), "x");
    const seen = [(await frames.next()).value, (await frames.next()).value];
    expect(seen).toEqual([
      { flags: 0, json: { filesystem: { name: "f", type: "EVENT_TYPE_CREATE" } } },
      { flags: 0, json: { filesystem: { name: "f", type: "EVENT_TYPE_WRITE" } } },
    ]);
    expect(await watchesOf()).toBe(1);
    stream.req.destroy();
    await expect.poll(watchesOf).toBe(0);
  });

  it("sends signs of life", async () => {
    await using guest = await startGuest();
    const head = { "keepalive-ping-interval": "1" };
    const stream = await openStream(guest.port, "/filesystem.Filesystem/WatchDir", envelope({ path: "" }), head);
    const frames = stream.frames();
    await frames.next();
    expect((await frames.next()).value).toEqual({ flags: 0, json: { keepalive: {} } });
    stream.req.destroy();
  });

  it("ends with the client's limit", async () => {
    await using guest = await startGuest();
    const head = { "connect-timeout-ms": "1500" };
    const stream = await openStream(guest.port, "/filesystem.Filesystem/WatchDir", envelope({ path: "" }), head);
    const [start, end] = await stream.all();
    expect(start?.json).toEqual({ start: {} });
    expect(end).toMatchObject({ flags: 2, json: { error: { code: "deadline_exceeded" } } });
    expect(await watchesOf()).toBe(0);
  });

  it("is cut when the daemon ends", async () => {
    const guest = await startGuest();
    const stream = await openStream(guest.port, "/filesystem.Filesystem/WatchDir", envelope({ path: "" }));
    const frames = stream.frames();
    await frames.next();
    await guest.close();
    await expect(frames.next()).rejects.toThrow();
    expect(await watchesOf()).toBe(0);
  });

  it("adds what a path is, for those that are still there", async () => {
    await using guest = await startGuest();
    const abort = new AbortController();
    const seen: FilesystemEvent[] = [];
    const stream = guest
      .filesystem()
      .watchDir(
        { path: "", includeEntry: true },
        { signal: abort.signal, headers: { "keepalive-ping-interval": "60" } },
      );
    const reading = (async () => {
      for await (const { event } of stream) {
        if (event.case === "start") {
          await guest.call("POST", "/files?path=f", { headers: { ...OCTETS, "x-metadata-a": "b" }, body: "12345" });
          await rename(join(guest.home, "f"), join(guest.home, "g"));
          await chmod(join(guest.home, "g"), 0o600);
          await rm(join(guest.home, "g"));
          await mkdir(join(guest.home, "last"));
        }
        if (event.case === "filesystem") seen.push(event.value);
        if (event.case === "filesystem" && event.value.name === "last") break;
      }
    })();
    await reading;
    expect(seen.map(text)).toEqual(
      expect.arrayContaining(["create f", "write f", "rename f", "create g", "chmod g", "remove g", "create last"]),
    );
    for (const { type, entry } of seen) {
      if (type === EventType.REMOVE || type === EventType.RENAME) expect(entry).toBeUndefined();
    }
    expect(seen.at(-1)?.entry).toMatchObject({
      name: "last",
      path: join(guest.home, "last"),
      type: FileType.DIRECTORY,
    });
  });
});

describe("what cannot be watched", () => {
  const calls = {
    watchDir: async (guest: TestGuest, path: string) => {
      for await (const _ of guest.filesystem().watchDir({ path })) expect.unreachable();
    },
    createWatcher: (guest: TestGuest, path: string) => guest.filesystem().createWatcher({ path }),
  };

  it.each(["watchDir", "createWatcher"] as const)("is refused by %s with the right code", async (method) => {
    await using guest = await startGuest();
    await writeFile(join(guest.home, "file"), "");
    await symlink("loop", join(guest.home, "loop"));
    const start = calls[method];
    expect(await codeOf(start(guest, "none"))).toEqual(["NotFound", `path '${guest.home}/none' does not exist`]);
    expect(await codeOf(start(guest, "file"))).toEqual([
      "InvalidArgument",
      `path '${guest.home}/file' is not a directory`,
    ]);
    expect((await codeOf(start(guest, "file/x")))[0]).toBe("InvalidArgument");
    expect((await codeOf(start(guest, "~other/x")))[0]).toBe("InvalidArgument");
    expect((await codeOf(start(guest, "loop")))[0]).toBe("Internal");
    expect(await watchesOf()).toBe(0);
  });

  it("is a watcher that does not exist", async () => {
    await using guest = await startGuest();
    const client = guest.filesystem();
    const { watcherId } = await client.createWatcher({ path: "" });
    await client.removeWatcher({ watcherId });
    for (const id of [watcherId, "", "w1", "__proto__"]) {
      expect((await codeOf(client.getWatcherEvents({ watcherId: id })))[0]).toBe("NotFound");
      expect((await codeOf(client.removeWatcher({ watcherId: id })))[0]).toBe("NotFound");
    }
  });

  it.each<[string, NonNullable<EnvdOptions["loadFfi"]>, RegExp]>([
    [
      "missing",
      () => Promise.reject(new Error("Cannot find module\nRequire stack: /secret")),
      /sandbox: koffi cannot be loaded: Cannot find module$/,
    ],
    [
      "of another system",
      () =>
        Promise.resolve({
          default: {
            load: () => ({
              func: () => {
                throw new Error("no inotify_init1");
              },
            }),
          },
        }),
      /no inotify_init1/,
    ],
  ])("is everything when the library is %s; files work without it", async (_what, loadFfi, message) => {
    await using guest = await startGuest({ loadFfi });
    const refused = ["Unimplemented", expect.stringMatching(message)];
    expect(await codeOf(calls.watchDir(guest, ""))).toEqual(refused);
    expect(await codeOf(calls.createWatcher(guest, ""))).toEqual(refused);
    const headers = { ...OCTETS, "x-metadata-author": "secret" };
    const reply = await guest.call("POST", "/files?path=f", { headers, body: "x" });
    expect([reply.status, reply.json()]).toEqual([200, [{ path: join(guest.home, "f"), name: "f", type: "file" }]]);
    expect((await guest.filesystem().stat({ path: "f" })).entry?.metadata).toEqual({});
    expect(guest.logs).toMatchObject([{ level: "warn", fields: { keys: ["author"] } }]);
    expect(JSON.stringify(guest.logs)).not.toContain("secret");
  });
});
