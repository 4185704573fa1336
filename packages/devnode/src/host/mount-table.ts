import { readFileSync } from "node:fs";

/** One line of `/proc/self/mountinfo`. */
export interface MountEntry {
  readonly path: string;
  readonly type: string;
  readonly options: readonly string[];
  /** Options of the file system itself; a v1 cgroup mount names its controllers here. */
  readonly superOptions: readonly string[];
}

/** Reads the mounts this process sees; empty where there is no such file. */
export function readMountTable(file = "/proc/self/mountinfo"): MountEntry[] {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch {
    return [];
  }
  return parseMountTable(text);
}

/** Parses mountinfo (proc_pid_mountinfo(5)): optional fields end with a lone `-`, blanks in paths are octal. */
export function parseMountTable(text: string): MountEntry[] {
  const entries: MountEntry[] = [];
  for (const line of text.split("\n")) {
    const fields = line.split(" ");
    const separator = fields.indexOf("-", 6);
    const [path, options] = [fields[4], fields[5]];
    const [type, superOptions] = [fields[separator + 1], fields[separator + 3]];
    if (separator === -1 || path === undefined || options === undefined || type === undefined) {
      continue;
    }
    entries.push({
      path: path.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8))),
      type,
      options: options.split(","),
      superOptions: (superOptions ?? "").split(","),
    });
  }
  return entries;
}

const LOCKED = ["nosuid", "nodev", "noexec", "noatime", "nodiratime", "relatime"];

/**
 * The flags a read-only bind of `path` must repeat: inside a user namespace the kernel refuses a remount that would
 * drop a flag of the mount it came from.
 */
export function lockedFlags(table: readonly MountEntry[], path: string): string[] {
  let best: MountEntry | undefined;
  for (const entry of table) {
    const inside = entry.path === "/" || path === entry.path || path.startsWith(`${entry.path}/`);
    if (inside && (best === undefined || entry.path.length >= best.path.length)) {
      best = entry;
    }
  }
  return LOCKED.filter((flag) => best?.options.includes(flag));
}
