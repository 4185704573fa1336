import { readFileSync, readdirSync } from "node:fs";

/** `O_CLOEXEC` in the flags that the kernel tells, which are octal. */
const CLOSE_ON_EXEC = 0o2000000;

/**
 * Descriptors that every child of this process gets: those its parent left open, since Node opens its own closed to
 * children. A terminal, a lock file or a folder of the host's would be open in every guest. Empty where the system does
 * not tell.
 */
export function inheritedDescriptors(folder = "/proc/self"): number[] {
  const found: number[] = [];
  let names: string[];
  try {
    names = readdirSync(`${folder}/fdinfo`);
  } catch {
    return found;
  }
  for (const name of names) {
    try {
      const flags = /^flags:\s*([0-7]+)$/m.exec(readFileSync(`${folder}/fdinfo/${name}`, "utf8"))?.[1];
      if (flags !== undefined && (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0) {
        found.push(Number(name));
      }
    } catch {
      // The one that read the folder is closed by now.
    }
  }
  return found.toSorted((a, b) => a - b);
}
