import { chmodSync, copyFileSync, cpSync, existsSync, mkdirSync, realpathSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { DevNodeError } from "../errors.ts";

/** Host files that every guest needs to run the agent. */
export interface AgentFiles {
  /** The running node binary. */
  readonly node: string;
  /** Folder with the agent's bundle and its native libraries, readable by anyone who gets to see it. */
  readonly folder: string;
}

/** The agent inside {@link AgentFiles.folder}. */
export const AGENT_ENTRY = "guest.mjs";

/** Places of the built agent, from the package's own build and from its sources. */
const BUNDLES = ["./guest.js", "../guest.js", "../../dist/guest.js"];
/** What the agent loads when it first needs it: terminals, and the system's calls that Node has no function for. */
const LIBRARIES: readonly { readonly name: string; readonly binary: string }[] = [
  { name: "@lydell/node-pty", binary: "@lydell/node-pty" },
  { name: "koffi", binary: "@koromix/koffi" },
];
/** Sources and manuals, which make up most of a library. */
const NOT_RUN = new Set([".cc", ".hh", ".inc", ".h", ".s", ".asm", ".md", ".map", ".ts"]);

/**
 * Copies the agent and its native libraries into `folder`: a guest sees only copies, and whatever the host's umask is,
 * its users can read them.
 *
 * @throws DevNodeError `guest_start_failed` when the agent was not built
 */
export function prepareAgentFiles(folder: string, bundle?: string): AgentFiles {
  const found =
    bundle ?? BUNDLES.map((path) => fileURLToPath(new URL(path, import.meta.url))).find((path) => existsSync(path));
  if (found === undefined || !existsSync(found)) {
    throw new DevNodeError("guest_start_failed", "the guest agent dist/guest.js is missing: build @org/devnode first");
  }
  mkdirSync(folder, { mode: 0o755 });
  const entry = join(folder, AGENT_ENTRY);
  copyFileSync(found, entry);
  chmodSync(entry, 0o644);
  for (const library of LIBRARIES) {
    for (const [name, from] of nativePackages(library, found)) {
      cpSync(from, join(folder, "node_modules", name), {
        recursive: true,
        dereference: true,
        filter: (path) => !NOT_RUN.has(extname(path).toLowerCase()),
      });
    }
  }
  const node = realpathSync(process.execPath);
  if ((statSync(node).mode & 0o005) !== 0o005) {
    throw new DevNodeError("guest_start_failed", `guests cannot run ${node}: it is not executable for others`);
  }
  return { node, folder };
}

/** A library and its binary, found the way the daemon's package would find them; none where it is not installed. */
function nativePackages(
  library: { readonly name: string; readonly binary: string },
  bundle: string,
): [name: string, folder: string][] {
  const starts = [import.meta.url, bundle];
  try {
    starts.push(createRequire(import.meta.url).resolve("@org/envd/package.json"));
  } catch {
    // Bundled into another program: the other starts remain.
  }
  for (const start of starts) {
    const main = packageFolder(start, library.name);
    if (main !== undefined) {
      const binary = `${library.binary}-${process.platform}-${process.arch}`;
      const folder = packageFolder(join(main, "package.json"), binary);
      return folder === undefined
        ? [[library.name, main]]
        : [
            [library.name, main],
            [binary, folder],
          ];
    }
  }
  return [];
}

function packageFolder(from: string, name: string): string | undefined {
  for (const base of createRequire(from).resolve.paths(name) ?? []) {
    const folder = join(base, name);
    if (existsSync(join(folder, "package.json"))) {
      return realpathSync(folder);
    }
  }
  return undefined;
}
