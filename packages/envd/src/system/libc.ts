import { EnvdError } from "../errors.ts";

/** Waits for a descriptor in Node's own loop, without a thread. */
export interface PollHandle {
  /** Lets the process end while this waits. */
  unref(): void;
  close(): void;
}

/** The parts of `koffi` that the daemon uses. */
export interface FfiModule {
  load(library: null): { func(definition: string): unknown };
  errno(): number;
  readonly os: { readonly errno: Readonly<Record<string, number>> };
  readonly node: { poll(fd: number, what: { readonly readable: true }, onReady: () => void): unknown };
}

/** Loads a {@link FfiModule}, possibly wrapped in a `default` export. */
export type LoadFfi = () => Promise<unknown>;

/** Calls into the C library that Node has no function for. Failed calls throw an error with the usual `code`. */
export interface Libc {
  inotifyInit(flags: number): number;
  inotifyAddWatch(fd: number, path: string, mask: number): number;
  inotifyRemoveWatch(fd: number, wd: number): void;
  /** Reads what is there; undefined when there is nothing, so never waits on a non-blocking descriptor. */
  read(fd: number, into: Buffer): number | undefined;
  /** Tells when there is something to read, again and again until it was read. Runs outside Node's callbacks. */
  poll(fd: number, onReady: () => void): PollHandle;
  /** Names of the extended attributes of a file, by path (links are followed) or descriptor. */
  listAttributes(file: string | number): string[];
  /** Undefined when there is no such attribute. */
  readAttribute(file: string | number, name: string): Buffer | undefined;
  setAttribute(fd: number, name: string, value: Buffer): void;
  removeAttribute(fd: number, name: string): void;
}

/** Loads the library on first use and keeps it, or the reason why there is none. */
export type LibcLoader = () => Promise<Libc>;

/** @throws EnvdError `unimplemented` from the loader, with the reason */
export function createLibcLoader(
  load: LoadFfi = () => import("koffi"),
  platform: string = process.platform,
): LibcLoader {
  let loaded: Promise<Libc> | undefined;
  return () => {
    loaded ??= loadLibc(load, platform);
    return loaded;
  };
}

async function loadLibc(load: LoadFfi, platform: string): Promise<Libc> {
  if (platform !== "linux") {
    throw new EnvdError("unimplemented", `${platform} has neither inotify nor Linux's extended attributes`);
  }
  try {
    const module = (await load()) as FfiModule | { readonly default: FfiModule };
    return bindLibc("load" in module ? module : module.default);
  } catch (error) {
    const why = error instanceof Error ? (error.message.split("\n", 1)[0] ?? "") : "it failed";
    throw new EnvdError("unimplemented", `koffi cannot be loaded: ${why}`, { cause: error });
  }
}

/** Result of a call: a negative one is an error. */
type Call<A extends readonly unknown[]> = (...args: A) => number | bigint;

/** Names and values that most files have fit; longer ones cost a second call. */
const USUAL_BYTES = 8 * 1024;
/** The kernel's own limit of both. */
const MOST_BYTES = 64 * 1024;

function bindLibc(koffi: FfiModule): Libc {
  // The functions of the process itself: whatever C library Node was linked to.
  const library = koffi.load(null);
  const bind = <A extends readonly unknown[]>(definition: string): Call<A> => library.func(definition) as Call<A>;
  const init = bind<[number]>("int inotify_init1(int flags)");
  const addWatch = bind<[number, string, number]>("int inotify_add_watch(int fd, const char *path, uint32_t mask)");
  const removeWatch = bind<[number, number]>("int inotify_rm_watch(int fd, int wd)");
  const read = bind<[number, Buffer, number]>("intptr_t read(int fd, void *buffer, size_t count)");
  const list = bind<[string, Buffer, number]>("intptr_t listxattr(const char *path, void *list, size_t size)");
  const listOf = bind<[number, Buffer, number]>("intptr_t flistxattr(int fd, void *list, size_t size)");
  const get = bind<[string, string, Buffer, number]>(
    "intptr_t getxattr(const char *path, const char *name, void *value, size_t size)",
  );
  const getOf = bind<[number, string, Buffer, number]>(
    "intptr_t fgetxattr(int fd, const char *name, void *value, size_t size)",
  );
  const set = bind<[number, string, Buffer, number, number]>(
    "int fsetxattr(int fd, const char *name, const void *value, size_t size, int flags)",
  );
  const remove = bind<[number, string]>("int fremovexattr(int fd, const char *name)");
  const names = new Map(Object.entries(koffi.os.errno).map(([name, number]) => [number, name]));
  // Linux has two names for each of these numbers.
  for (const name of ["EAGAIN", "ENOTSUP"]) names.set(koffi.os.errno[name] ?? -1, name);
  const buffer = Buffer.alloc(USUAL_BYTES);

  function lastError(call: string): Error {
    const number = koffi.errno();
    const code = names.get(number) ?? `errno ${number}`;
    return Object.assign(new Error(`${call}: ${code}`), { code });
  }

  function checked(call: string, result: number | bigint): number {
    if (result < 0) throw lastError(call);
    return Number(result);
  }

  /** Calls with the usual buffer, and once more with the largest when that was too small. */
  function fill(call: string, run: (into: Buffer) => number | bigint): Buffer {
    const first = run(buffer);
    if (first >= 0) return buffer.subarray(0, Number(first));
    if (names.get(koffi.errno()) !== "ERANGE") throw lastError(call);
    const large = Buffer.alloc(MOST_BYTES);
    return large.subarray(0, checked(call, run(large)));
  }

  return {
    inotifyInit: (flags) => checked("inotify_init1", init(flags)),
    inotifyAddWatch: (fd, path, mask) => checked("inotify_add_watch", addWatch(fd, path, mask)),
    inotifyRemoveWatch: (fd, wd) => void checked("inotify_rm_watch", removeWatch(fd, wd)),
    read(fd, into) {
      const length = read(fd, into, into.length);
      if (length >= 0) return Number(length);
      const code = names.get(koffi.errno());
      if (code === "EAGAIN") return undefined;
      if (code === "EINTR") return 0;
      throw lastError("read");
    },
    poll: (fd, onReady) => koffi.node.poll(fd, { readable: true }, onReady) as PollHandle,
    listAttributes(file) {
      const bytes = fill("listxattr", (into) =>
        typeof file === "string" ? list(file, into, into.length) : listOf(file, into, into.length),
      );
      return bytes.length === 0 ? [] : bytes.toString("utf8", 0, bytes.length - 1).split("\0");
    },
    readAttribute(file, name) {
      try {
        return Buffer.from(
          fill("getxattr", (into) =>
            typeof file === "string" ? get(file, name, into, into.length) : getOf(file, name, into, into.length),
          ),
        );
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === "ENODATA") return undefined;
        throw error;
      }
    },
    setAttribute: (fd, name, value) => void checked("fsetxattr", set(fd, name, value, value.length, 0)),
    removeAttribute: (fd, name) => void checked("fremovexattr", remove(fd, name)),
  };
}
