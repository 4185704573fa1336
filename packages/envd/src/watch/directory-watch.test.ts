import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { EventType } from "@org/envd-client";
import { describe, expect, it } from "vitest";

import { watchDirectory } from "./directory-watch.ts";
import { IN, type Inotify, type InotifyListener } from "./inotify.ts";

interface Script {
  readonly inotify: Inotify;
  /** Directories by their number. */
  readonly watched: Map<number, string>;
  readonly listener: () => InotifyListener;
}

/** A kernel that says what the test wants. `refuse` is the errno of every directory after the first. */
function script(refuse?: string): Script {
  const watched = new Map<number, string>();
  let found: InotifyListener | undefined;
  const fail = (code: string): never => {
    throw Object.assign(new Error(code), { code });
  };
  return {
    watched,
    listener: () => found ?? fail("nobody listens"),
    inotify: {
      add(path, listener) {
        if (refuse !== undefined && (watched.size > 0 || refuse === "EMFILE")) fail(refuse);
        found = listener;
        watched.set(watched.size + 1, path);
        return watched.size;
      },
      remove: (wd) => void watched.delete(wd),
      drain: () => undefined,
      [Symbol.dispose]: () => undefined,
    },
  };
}

async function tree(test: (directory: string) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "envd-watch-"));
  try {
    await mkdir(join(directory, "sub"));
    await test(directory);
  } finally {
    await rm(directory, { recursive: true });
  }
}

const never = new AbortController().signal;

describe("a watch", () => {
  it.each<[string, (listener: InotifyListener) => void, RegExp]>([
    ["the kernel's queue overflows", (listener) => listener.onOverflow(), /queue of events has overflowed/],
    [
      "the file system is unmounted",
      (listener) => listener.onEvent({ wd: 1, mask: IN.UNMOUNT, name: "" }),
      /unmounted/,
    ],
    [
      "the client leaves too many events waiting",
      (listener) => {
        for (let at = 0; at < 4; at += 1) listener.onEvent({ wd: 1, mask: IN.CREATE, name: String(at) });
      },
      /more than 3 events/,
    ],
  ])("ends with an error each time when %s", async (_what, act, message) => {
    await tree(async (directory) => {
      const { inotify, watched, listener } = script();
      using watch = await watchDirectory(inotify, directory, { recursive: true, maxEvents: 3 });
      const waiting = watch.wait(never);
      act(listener());
      watch.take();
      await waiting.catch(() => undefined);
      const refused = { code: "internal", message: expect.stringMatching(message) };
      for (let times = 0; times < 2; times += 1) expect(() => watch.check()).toThrow(expect.objectContaining(refused));
      await expect(watch.wait(never)).rejects.toMatchObject(refused);
      // Nothing is held any longer.
      expect(watched.size).toBe(0);
    });
  });

  it.each([
    ["ENOSPC", /max_user_watches/],
    ["EMFILE", /max_user_instances/],
  ])("is refused at the system's limit (%s), and lets go of what it had", async (errno, message) => {
    await tree(async (directory) => {
      const { inotify, watched } = script(errno);
      await expect(watchDirectory(inotify, directory, { recursive: true })).rejects.toMatchObject({
        code: "internal",
        message: expect.stringMatching(message),
      });
      expect(watched.size).toBe(0);
    });
  });

  it("tells one event with several bits in a fixed order", async () => {
    await tree(async (directory) => {
      const { inotify, listener } = script();
      using watch = await watchDirectory(inotify, directory, { recursive: false });
      const mask = IN.DELETE | IN.MODIFY | IN.ATTRIB | IN.MOVED_FROM | IN.CREATE;
      listener().onEvent({ wd: 1, mask, name: "f" });
      const { CREATE, RENAME, CHMOD, WRITE, REMOVE } = EventType;
      expect(watch.take().map(({ type }) => type)).toEqual([CREATE, RENAME, CHMOD, WRITE, REMOVE]);
    });
  });

  it("passes over directories it may not see or that have gone", async () => {
    for (const errno of ["EACCES", "ENOENT", "ENOTDIR"]) {
      await tree(async (directory) => {
        const { inotify, listener } = script(errno);
        using watch = await watchDirectory(inotify, directory, { recursive: true });
        listener().onEvent({ wd: 1, mask: IN.CREATE | IN.ISDIR, name: "gone" });
        watch.check();
        expect(watch.take()).toEqual([{ name: "gone", type: EventType.CREATE }]);
      });
    }
  });

  it("stops waiting when the caller leaves", async () => {
    await tree(async (directory) => {
      using watch = await watchDirectory(script().inotify, directory, { recursive: false });
      const abort = new AbortController();
      const waiting = watch.wait(abort.signal);
      abort.abort();
      await waiting;
      expect(watch.take()).toEqual([]);
    });
  });
});
