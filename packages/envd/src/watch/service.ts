import { randomBytes } from "node:crypto";
import { stat, statfs } from "node:fs/promises";
import { posix } from "node:path";

import { EventType, type Filesystem, type FilesystemEventSchema } from "@org/envd-client";
import type { MessageInitShape } from "@bufbuild/protobuf";

import { EnvdError, errnoOf } from "../errors.ts";
import { describeEntry } from "../filesystem/entry-info.ts";
import { type Guest, locate, type ResolvedPath } from "../guest/guest.ts";
import type { Call, ServiceImpl } from "../rpc/call.ts";
import type { LibcLoader } from "../system/libc.ts";
import { type DirectoryWatch, watchDirectory, type WatchEvent } from "./directory-watch.ts";
import { createInotify, type Inotify } from "./inotify.ts";

type Methods = Pick<
  ServiceImpl<typeof Filesystem>,
  "watchDir" | "createWatcher" | "getWatcherEvents" | "removeWatcher"
>;

/** The watching methods of the service, and the end of all watchers. */
export interface Watching extends Methods, Disposable {}

interface WatchRequest {
  readonly path: string;
  readonly recursive: boolean;
  readonly includeEntry: boolean;
  readonly allowNetworkMounts: boolean;
}

interface Watcher extends Disposable {
  readonly watch: DirectoryWatch;
  readonly describe: (events: readonly WatchEvent[]) => Promise<Described[]>;
}

type Described = MessageInitShape<typeof FilesystemEventSchema>;

/** Watchers that are fetched from live until they are removed; a client that forgets them must not fill the memory. */
const MAX_WATCHERS = 1024;
const ID_BYTES = 12;
/** Events described at the same time: Node's file threads are few. */
const PARALLEL = 16;
/** Only of what is still there. */
const WITH_ENTRY = new Set([EventType.CREATE, EventType.WRITE, EventType.CHMOD]);
/** `f_type` of NFS, CIFS, SMB, SMB 2 and FUSE, where changes made elsewhere are not told. */
const NETWORK_MOUNTS = new Set([0x6969, 0xff53_4d42, 0x517b, 0xfe53_4d42, 0x6573_5546]);

export function createWatching(guest: Guest, libc: LibcLoader): Watching {
  const watchers = new Map<string, Watcher>();
  const open = new Set<DirectoryWatch>();
  let inotify: Inotify | undefined;
  let closed = false;

  async function start(request: WatchRequest, call: Call): Promise<Watcher> {
    const at = locate(guest, request.path, call.user());
    await checkDirectory(at, request.allowNetworkMounts);
    inotify ??= createInotify(await loaded(libc));
    let watch: DirectoryWatch;
    try {
      watch = await watchDirectory(inotify, at.host, { recursive: request.recursive });
    } catch (error) {
      throw watchError(error, at);
    }
    if (closed) {
      watch[Symbol.dispose]();
      throw new EnvdError("unavailable", "the sandbox is shutting down");
    }
    open.add(watch);
    return {
      watch,
      describe: (events) => describeEvents(guest, at, events, request.includeEntry),
      [Symbol.dispose]() {
        open.delete(watch);
        watch[Symbol.dispose]();
      },
    };
  }

  function find(id: string): Watcher {
    const watcher = watchers.get(id);
    if (watcher === undefined) throw new EnvdError("not_found", `watcher with id ${id} not found`);
    return watcher;
  }

  return {
    async watchDir(request, call, stream) {
      using watcher = await start(request, call);
      await stream.send({ event: { case: "start", value: {} } });
      while (!call.signal.aborted) {
        await watcher.watch.wait(call.signal);
        const events = watcher.watch.take();
        for (let at = 0; at < events.length && !call.signal.aborted; at += PARALLEL) {
          for (const event of await watcher.describe(events.slice(at, at + PARALLEL))) {
            await stream.send({ event: { case: "filesystem", value: event } });
          }
        }
      }
    },
    async createWatcher(request, call) {
      if (watchers.size >= MAX_WATCHERS) {
        throw new EnvdError("resource_exhausted", `there are ${MAX_WATCHERS} watchers; remove those not needed`);
      }
      const watcher = await start(request, call);
      const watcherId = `w${randomBytes(ID_BYTES).toString("hex")}`;
      watchers.set(watcherId, watcher);
      return { watcherId };
    },
    async getWatcherEvents({ watcherId }) {
      const { watch, describe } = find(watcherId);
      watch.catchUp();
      watch.check();
      const events = watch.take();
      const described: Described[] = [];
      for (let at = 0; at < events.length; at += PARALLEL) {
        for (const event of await describe(events.slice(at, at + PARALLEL))) described.push(event);
      }
      return { events: described };
    },
    removeWatcher({ watcherId }) {
      find(watcherId)[Symbol.dispose]();
      watchers.delete(watcherId);
      return {};
    },
    [Symbol.dispose]() {
      closed = true;
      for (const watch of open) watch[Symbol.dispose]();
      open.clear();
      watchers.clear();
      inotify?.[Symbol.dispose]();
    },
  };
}

async function loaded(libc: LibcLoader): ReturnType<LibcLoader> {
  try {
    return await libc();
  } catch (error) {
    const why = error instanceof Error ? error.message : "it cannot be loaded";
    throw new EnvdError("unimplemented", `directories cannot be watched in this sandbox: ${why}`, { cause: error });
  }
}

async function checkDirectory(at: ResolvedPath, allowNetworkMounts: boolean): Promise<void> {
  try {
    if (!(await stat(at.host)).isDirectory()) {
      throw new EnvdError("invalid_argument", `path '${at.guest}' is not a directory`);
    }
    if (allowNetworkMounts) return;
    if (NETWORK_MOUNTS.has((await statfs(at.host)).type >>> 0)) {
      throw new EnvdError(
        "invalid_argument",
        `path '${at.guest}' is on a network mount, where changes made elsewhere are not seen; allow network mounts to watch it`,
      );
    }
  } catch (error) {
    throw watchError(error, at);
  }
}

function watchError(error: unknown, { guest: path }: ResolvedPath): EnvdError {
  if (error instanceof EnvdError) return error;
  const errno = errnoOf(error) ?? "failed";
  if (errno === "ENOENT") return new EnvdError("not_found", `path '${path}' does not exist`, { cause: error });
  if (errno === "ENOTDIR") {
    return new EnvdError("invalid_argument", `path '${path}' is not a directory`, { cause: error });
  }
  return new EnvdError("internal", `cannot watch '${path}': ${errno}`, { cause: error });
}

/** Adds what a path is now; one that is gone again has none. */
async function describeEvents(
  guest: Guest,
  root: ResolvedPath,
  events: readonly WatchEvent[],
  includeEntry: boolean,
): Promise<Described[]> {
  if (!includeEntry) return [...events];
  return Promise.all(
    events.map(async (event) => {
      if (!WITH_ENTRY.has(event.type)) return event;
      const place = { guest: posix.join(root.guest, event.name), host: posix.join(root.host, event.name) };
      const entry = await describeEntry(guest, place).catch(() => undefined);
      return entry === undefined ? event : { ...event, entry };
    }),
  );
}
