import { closeSync } from "node:fs";

import type { Libc, PollHandle } from "../system/libc.ts";

/** Bits of {@link InotifyEvent.mask}, from `<sys/inotify.h>`. */
export const IN = {
  MODIFY: 0x2,
  ATTRIB: 0x4,
  MOVED_FROM: 0x40,
  MOVED_TO: 0x80,
  CREATE: 0x100,
  DELETE: 0x200,
  DELETE_SELF: 0x400,
  MOVE_SELF: 0x800,
  UNMOUNT: 0x2000,
  OVERFLOW: 0x4000,
  IGNORED: 0x8000,
  ONLYDIR: 0x0100_0000,
  DONT_FOLLOW: 0x0200_0000,
  ISDIR: 0x4000_0000,
} as const;

/** What is watched for: everything but opening, reading and closing. */
const WANTED =
  IN.MODIFY |
  IN.ATTRIB |
  IN.MOVED_FROM |
  IN.MOVED_TO |
  IN.CREATE |
  IN.DELETE |
  IN.DELETE_SELF |
  IN.MOVE_SELF |
  IN.ONLYDIR;
/** `IN_NONBLOCK | IN_CLOEXEC`: reads never wait, and commands do not inherit the queue. */
const INIT_FLAGS = 0o4000 | 0o2000000;

/** One event of the kernel. */
export interface InotifyEvent {
  readonly wd: number;
  readonly mask: number;
  /** Empty when the event is about the watched directory itself. */
  readonly name: string;
}

/** Who hears of a directory's events. Listeners never throw. */
export interface InotifyListener {
  onEvent(event: InotifyEvent): void;
  /** Everything that had happened before has been told. */
  onDrained(): void;
  /** Events were lost. */
  onOverflow(): void;
}

/** The kernel's queue of events, one for all watchers of the daemon: the system allows few of them per user. */
export interface Inotify extends Disposable {
  /**
   * Watches a directory. The same directory gives the same number, whatever its path.
   *
   * @throws system errors: ENOSPC at the limit of watches, EMFILE at that of queues
   */
  add(path: string, listener: InotifyListener, options?: { readonly follow?: boolean }): number;
  /** Does nothing for a directory that this listener does not watch. */
  remove(wd: number, listener: InotifyListener): void;
  /** Tells what has happened so far, before it returns. */
  drain(): void;
}

const HEAD_BYTES = 16;
const BUFFER_BYTES = 64 * 1024;
/** Reads in one go, some 100,000 events at most: a guest that makes events without end must not hold up the rest. */
const MAX_READS = 64;

export function createInotify(libc: Libc): Inotify {
  const listeners = new Map<number, Set<InotifyListener>>();
  let fd: number | undefined;
  let poll: PollHandle | undefined;
  let scheduled: NodeJS.Immediate | undefined;
  let draining = false;
  const buffer = Buffer.alloc(BUFFER_BYTES);

  function open(): number {
    if (fd !== undefined) return fd;
    fd = libc.inotifyInit(INIT_FLAGS);
    try {
      poll = libc.poll(fd, () => {
        // The loop calls this outside of Node's callbacks, where promises would not go on: only ask for a turn.
        scheduled ??= setImmediate(() => {
          scheduled = undefined;
          drain();
        });
      });
      poll.unref();
    } catch (error) {
      close();
      throw error;
    }
    return fd;
  }

  function close(): void {
    clearImmediate(scheduled);
    scheduled = undefined;
    poll?.close();
    poll = undefined;
    if (fd !== undefined) closeSync(fd);
    fd = undefined;
    listeners.clear();
  }

  function everyone(): Set<InotifyListener> {
    return new Set([...listeners.values()].flatMap((set) => [...set]));
  }

  function tell(event: InotifyEvent): void {
    if ((event.mask & IN.OVERFLOW) !== 0) {
      for (const listener of everyone()) listener.onOverflow();
      return;
    }
    // A listener may leave, or take up the directory under another name, while it hears of an event.
    const concerned = new Set(listeners.get(event.wd));
    for (const listener of concerned) listener.onEvent(event);
    if ((event.mask & IN.IGNORED) !== 0) listeners.delete(event.wd);
  }

  function drain(): void {
    // What a listener causes is told by the round that is running.
    if (draining || fd === undefined) return;
    draining = true;
    try {
      for (let reads = 0; reads < MAX_READS; reads += 1) {
        const length = libc.read(fd, buffer);
        if (length === undefined) {
          for (const listener of everyone()) listener.onDrained();
          return;
        }
        for (const event of eventsIn(buffer.subarray(0, length))) tell(event);
      }
    } finally {
      draining = false;
      closeWhenIdle();
    }
  }

  function closeWhenIdle(): void {
    if (listeners.size === 0 && !draining) close();
  }

  return {
    add(path, listener, { follow = false } = {}) {
      try {
        const wd = libc.inotifyAddWatch(open(), path, WANTED | (follow ? 0 : IN.DONT_FOLLOW));
        const set = listeners.get(wd) ?? new Set();
        listeners.set(wd, set.add(listener));
        return wd;
      } finally {
        closeWhenIdle();
      }
    },
    remove(wd, listener) {
      const set = listeners.get(wd);
      if (set?.delete(listener) !== true || set.size > 0) return;
      listeners.delete(wd);
      if (fd !== undefined) {
        try {
          libc.inotifyRemoveWatch(fd, wd);
        } catch {
          // The directory is gone, and its watch with it.
        }
      }
      closeWhenIdle();
    },
    drain,
    [Symbol.dispose]: close,
  };
}

/** The events in a buffer that the kernel has filled; their fields are in the order of the machine. */
function* eventsIn(bytes: Buffer): Generator<InotifyEvent, void> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let at = 0; at + HEAD_BYTES <= bytes.length;) {
    const begin = at + HEAD_BYTES;
    const end = begin + view.getUint32(at + 12, LITTLE_ENDIAN);
    const zero = bytes.indexOf(0, begin);
    yield {
      wd: view.getInt32(at, LITTLE_ENDIAN),
      mask: view.getUint32(at + 4, LITTLE_ENDIAN),
      name: begin === end ? "" : bytes.toString("utf8", begin, zero >= begin && zero < end ? zero : end),
    };
    at = end;
  }
}

const LITTLE_ENDIAN = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;
