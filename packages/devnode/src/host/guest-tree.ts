import { execFile } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { lchown, opendir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { idInside, type IdRange } from "./id-range.ts";
import { SUDO_SCRIPT } from "./sudo-script.ts";

/** Id of the unprivileged user inside a guest. */
export const GUEST_UID = 1000;
/** Where the node binary, the agent and its helpers are, inside a guest. */
export const GUEST_TOOLS = "/opt/sandbox";
/** Search path of everything that runs in a guest. */
export const GUEST_PATH: string = `${GUEST_TOOLS}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`;

/** A host path that appears, read-only, at the same or another path of the guest. */
export interface ReadOnlyBind {
  readonly from: string;
  /** Absolute path inside the guest. */
  readonly to: string;
  readonly directory: boolean;
}

/** What of the host every guest sees. */
export interface HostView {
  readonly binds: readonly ReadOnlyBind[];
  /** Top-level links such as `/bin` → `usr/bin`. */
  readonly links: readonly { readonly path: string; readonly target: string }[];
}

const TOP_LEVEL = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/** Folders of `/etc` that hold no secrets and that programs under `/usr` need. */
const ETC_FOLDERS = ["alternatives", "ssl/certs", "pki/tls/certs", "pki/ca-trust/extracted", "ld.so.conf.d", "fonts"];
/** Files of `/etc` that are copied, so that a guest may change them. */
const ETC_FILES = [
  "ld.so.cache",
  "ld.so.conf",
  "localtime",
  "mime.types",
  "os-release",
  "protocols",
  "services",
  "ssl/openssl.cnf",
  "debian_version",
  "shells",
];

/** Looks at the host once; every guest of a run has the same view. */
export function readHostView(): HostView {
  const binds: ReadOnlyBind[] = [];
  const links: { path: string; target: string }[] = [];
  for (const name of TOP_LEVEL) {
    const path = `/${name}`;
    if (!existsSync(path)) {
      continue;
    }
    if (lstatSync(path).isSymbolicLink()) {
      links.push({ path, target: readlinkSync(path) });
    } else {
      binds.push({ from: path, to: path, directory: true });
    }
  }
  for (const name of ETC_FOLDERS) {
    if (existsSync(`/etc/${name}`)) {
      binds.push({ from: `/etc/${name}`, to: `/etc/${name}`, directory: true });
    }
  }
  return { binds, links };
}

const FOLDERS: readonly (readonly [path: string, mode: number, owner: 0 | typeof GUEST_UID])[] = [
  ["/dev", 0o755, 0],
  ["/dev/pts", 0o755, 0],
  ["/dev/shm", 0o1777, 0],
  ["/etc", 0o755, 0],
  ["/etc/ssl", 0o755, 0],
  ["/home", 0o755, 0],
  ["/home/user", 0o755, GUEST_UID],
  ["/mnt", 0o755, 0],
  ["/opt", 0o755, 0],
  [GUEST_TOOLS, 0o755, 0],
  [`${GUEST_TOOLS}/bin`, 0o755, 0],
  ["/proc", 0o555, 0],
  ["/root", 0o700, 0],
  ["/run", 0o755, 0],
  ["/srv", 0o755, 0],
  ["/tmp", 0o1777, 0],
  ["/var", 0o755, 0],
  ["/var/cache", 0o755, 0],
  ["/var/lib", 0o755, 0],
  ["/var/log", 0o755, 0],
  ["/var/tmp", 0o1777, 0],
  ["/.host", 0o700, 0],
];

/** Folders that a launch mounts something on or in. */
const MOUNT_FOLDERS: readonly (readonly [path: string, mode: number])[] = [
  ["/dev", 0o755],
  ["/dev/pts", 0o755],
  ["/dev/shm", 0o1777],
  [GUEST_TOOLS, 0o755],
  ["/proc", 0o555],
  ["/.host", 0o700],
];

/** Device nodes that are bound from the host. */
export const DEVICES: readonly string[] = ["null", "zero", "full", "random", "urandom", "tty"];

const DEVICE_LINKS = [
  ["ptmx", "pts/ptmx"],
  ["fd", "/proc/self/fd"],
  ["stdin", "/proc/self/fd/0"],
  ["stdout", "/proc/self/fd/1"],
  ["stderr", "/proc/self/fd/2"],
] as const;

const PASSWD = `root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
user:x:${GUEST_UID}:${GUEST_UID}:user:/home/user:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
`;
const GROUP = `root:x:0:
daemon:x:1:
tty:x:5:
sudo:x:27:user
staff:x:50:
user:x:${GUEST_UID}:
nogroup:x:65534:
`;
const HOSTS = `127.0.0.1\tlocalhost sandbox
::1\tlocalhost ip6-localhost ip6-loopback
`;
const RESOLV = `# Names are resolved by the proxies of the egress lane; there is no name server in here.
nameserver 127.0.0.1
options timeout:1 attempts:1
`;
const NSSWITCH = `passwd: files
group: files
shadow: files
hosts: files dns
services: files
protocols: files
`;
const PROFILE = `# Sourced by login shells. PATH comes from the environment.
if [ -n "\${BASH_VERSION-}" ] && [ -n "\${PS1-}" ]; then
  if [ "$(id -u)" = 0 ]; then PS1='\\u@\\h:\\w# '; else PS1='\\u@\\h:\\w$ '; fi
fi
`;
const BASHRC = `# Sourced by interactive shells that are not login shells.
case $- in *i*) ;; *) return ;; esac
PS1='\\u@\\h:\\w$ '
`;

/** How a guest's tree is made. */
export interface TreeOptions {
  /** An absent range leaves every file with the owner that creates it. */
  readonly range?: IdRange | undefined;
  /** Folder whose content is copied over the made tree. */
  readonly base?: string | undefined;
  readonly extraBinds: readonly ReadOnlyBind[];
}

/** Makes the writable tree of one guest, mount points included. @throws system errors */
export async function makeGuestTree(tree: string, view: HostView, options: TreeOptions): Promise<void> {
  const { range } = options;
  const own = (path: string, owner: number): void => {
    if (range !== undefined) {
      lchownSync(path, range.base + owner, range.base + owner);
    }
  };
  const folder = (path: string, mode: number, owner: number): void => {
    const full = join(tree, path);
    mkdirSync(full, { recursive: true });
    chmodSync(full, mode);
    own(full, owner);
  };
  const file = (path: string, content: string, mode: number, owner: number): void => {
    const full = join(tree, path);
    writeFileSync(full, content);
    chmodSync(full, mode);
    own(full, owner);
  };
  folder("/", 0o755, 0);
  for (const [path, mode, owner] of FOLDERS) {
    folder(path, mode, owner);
  }
  for (const { path, target } of view.links) {
    symlinkSync(target, join(tree, path));
    own(join(tree, path), 0);
  }
  for (const name of DEVICES) {
    file(`/dev/${name}`, "", 0o644, 0);
  }
  for (const [name, target] of DEVICE_LINKS) {
    symlinkSync(target, join(tree, "dev", name));
  }
  for (const name of ETC_FILES) {
    if (existsSync(`/etc/${name}`)) {
      const full = join(tree, "etc", name);
      copyFileSync(`/etc/${name}`, full);
      chmodSync(full, 0o644);
      own(full, 0);
    }
  }
  file("/etc/passwd", PASSWD, 0o644, 0);
  file("/etc/group", GROUP, 0o644, 0);
  file("/etc/hosts", HOSTS, 0o644, 0);
  file("/etc/hostname", "sandbox\n", 0o644, 0);
  file("/etc/resolv.conf", RESOLV, 0o644, 0);
  file("/etc/nsswitch.conf", NSSWITCH, 0o644, 0);
  file("/etc/profile", PROFILE, 0o644, 0);
  file("/etc/environment", "", 0o644, 0);
  file("/home/user/.bashrc", BASHRC, 0o644, GUEST_UID);
  file("/home/user/.profile", '[ -n "$BASH_VERSION" ] && . ~/.bashrc\n', 0o644, GUEST_UID);
  file("/root/.bashrc", BASHRC, 0o644, 0);
  file(`${GUEST_TOOLS}/bin/sudo`, SUDO_SCRIPT, 0o755, 0);
  if (range !== undefined && existsSync("/usr/bin/setpriv")) {
    // A set-uid program works in a guest only when a guest id owns it, so sudo gets its own copy.
    const elevate = join(tree, GUEST_TOOLS, "bin/elevate");
    copyFileSync("/usr/bin/setpriv", elevate);
    own(elevate, 0);
    chmodSync(elevate, 0o4755);
  }
  if (options.base !== undefined) {
    await promisify(execFile)("cp", ["-a", "--reflink=auto", `${options.base}/.`, tree]);
    if (range !== undefined) {
      await shiftOwners(options.base, tree, range);
    }
    // A template brings files, and its folders are as whoever unpacked it has them: those of the system stay as they are.
    for (const [path, mode, owner] of [["/", 0o755, 0] as const, ...FOLDERS]) {
      if (lstatSync(join(tree, path)).isDirectory()) {
        folder(path, mode, owner);
      }
    }
  }
  makeMountPoints(tree, view, options);
}

/** Makes what is missing in a tree for a guest to start in it, and nothing else. @throws system errors */
export function makeMountPoints(tree: string, view: HostView, options: Omit<TreeOptions, "base">): void {
  const { range } = options;
  const own = (path: string): void => {
    if (range !== undefined) {
      lchownSync(path, range.base, range.base);
    }
  };
  const point = (path: string, directory: boolean, mode: number): void => {
    const full = join(tree, path);
    clearTheWay(tree, path, directory);
    if (lstatSync(full, { throwIfNoEntry: false }) !== undefined) {
      return;
    }
    if (directory) {
      mkdirSync(full, { recursive: true });
    } else {
      mkdirSync(join(full, ".."), { recursive: true });
      writeFileSync(full, "", { flag: "wx" });
    }
    chmodSync(full, mode);
    own(full);
  };
  for (const [path, mode] of MOUNT_FOLDERS) {
    point(path, true, mode);
  }
  for (const name of DEVICES) {
    point(`/dev/${name}`, false, 0o644);
  }
  for (const { path, target } of view.links) {
    const full = join(tree, path);
    if (lstatSync(full, { throwIfNoEntry: false }) === undefined) {
      symlinkSync(target, full);
      own(full);
    }
  }
  for (const bind of [...view.binds, ...options.extraBinds]) {
    point(bind.to, bind.directory, bind.directory ? 0o755 : 0o644);
  }
}

/**
 * Removes what stands where a mount point goes and is none, links above all: what is made behind a link of a template is
 * made somewhere on the host.
 */
function clearTheWay(tree: string, path: string, directory: boolean): void {
  let at = tree;
  const names = path.split("/").filter((name) => name !== "");
  for (const [index, name] of names.entries()) {
    at = join(at, name);
    const stat = lstatSync(at, { throwIfNoEntry: false });
    if (stat === undefined) {
      return;
    }
    const wanted = directory || index + 1 < names.length ? stat.isDirectory() : stat.isFile();
    if (!wanted) {
      rmSync(at, { recursive: true, force: true });
    }
  }
}

/**
 * Owners of a captured guest's files in another guest: the same ids inside. Files of a guest that had one id for all
 * belong to its root, but for the user's home.
 */
export function ownerShift(
  from: IdRange | undefined,
  to: IdRange,
): (path: string, uid: number, gid: number) => readonly [uid: number, gid: number] {
  const shift = (path: string, id: number): number => {
    if (from === undefined) {
      return to.base + (path === "home/user" || path.startsWith("home/user/") ? GUEST_UID : 0);
    }
    return to.base + Math.min(idInside(from, id), to.count - 1);
  };
  return (path, uid, gid) => [shift(path, uid), shift(path, gid)];
}

/**
 * Gives what was copied from `base` to the guest's ids: the user's home to the user, whoever made the template, the
 * rest to who owned it. Set-uid bits survive.
 */
async function shiftOwners(base: string, tree: string, range: IdRange, path = ""): Promise<void> {
  const isHome = path === "home/user" || path.startsWith("home/user/");
  const shift = (id: number): number => range.base + (isHome || id >= range.count ? GUEST_UID : id);
  if (path !== "") {
    const stat = lstatSync(join(base, path));
    await lchown(join(tree, path), shift(stat.uid), shift(stat.gid));
    if (stat.isFile() && (stat.mode & 0o6000) !== 0) {
      chmodSync(join(tree, path), stat.mode & 0o7777);
    }
    if (!stat.isDirectory()) {
      return;
    }
  }
  for await (const entry of await opendir(join(base, path))) {
    await shiftOwners(base, tree, range, join(path, entry.name));
  }
}
