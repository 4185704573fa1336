import { createHash, randomBytes } from "node:crypto";
import { access, chmod, link, mkdir, stat, unlink, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { interpreterAlias } from "./interpreter.ts";

/** What `dev` keeps between runs: files that only this user may read. */
export interface DevState {
  readonly dir: string;
  /** Two API keys, of the namespaces `default` and `second`, as a key file. */
  readonly keyFile: string;
  readonly tokenFile: string;
  readonly secretFile: string;
  /** What people log in to the console with. */
  readonly consoleFile: string;
  /** Names of one image as an alias file: `base`, `ubuntu`, and `e2bdev/base`, which SDKs build on. */
  readonly aliasFile: string;
  /** Where template builds keep the files that they copy; made when it is used. */
  readonly buildFolder: string;
}

/**
 * The per-user state folder: `--state-dir`, else `$XDG_STATE_HOME/sandbox-e2b`, else `~/.local/state/sandbox-e2b`.
 * @throws Error when the user has no home; secrets never go to the working directory instead
 */
export function stateFolder(
  flag: string,
  env: Readonly<Record<string, string | undefined>>,
  home: string = homeFolder(),
): string {
  if (flag !== "") return resolve(flag);
  const base = env["XDG_STATE_HOME"];
  // The base directory specification has relative values ignored.
  if (base !== undefined && isAbsolute(base)) return join(base, "sandbox-e2b");
  if (!isAbsolute(home)) throw new Error("there is no home folder for the state: set --state-dir");
  return join(home, ".local", "state", "sandbox-e2b");
}

/** Empty without one: a user id without an entry, or `HOME=`. */
function homeFolder(): string {
  try {
    return homedir();
  } catch {
    return "";
  }
}

/**
 * Opens the state folder and makes what is missing in it. Safe when several runs start at once: the first to finish a
 * file wins and all use that one.
 */
export async function openState(dir: string, image: string): Promise<DevState> {
  try {
    await makeFolder(dir);
    await chmod(dir, 0o700);
  } catch (error) {
    const reason = error instanceof Error ? error.message : "failed";
    throw new Error(`state folder ${JSON.stringify(dir)} cannot be used, choose another with --state-dir: ${reason}`, {
      cause: error,
    });
  }
  // Some SDKs ask for a medium machine when a build names none, the others take the size of the alias.
  const aliases = `base ${image}\nubuntu ${image}\ne2bdev/base ${image} medium\n${interpreterAlias}\n`;
  // One alias file per image, so that runs with different images do not overwrite each other's.
  const aliasName = createHash("sha256").update(aliases).digest("hex").slice(0, 12);
  const [keyFile, tokenFile, secretFile, consoleFile, aliasFile] = await Promise.all([
    stableFile(join(dir, "api-keys"), () => `e2b_${hex(20)} default\ne2b_${hex(20)} second\n`),
    stableFile(join(dir, "node-token"), () => `${hex(32)}\n`),
    stableFile(join(dir, "envd-secret"), () => `${hex(32)}\n`),
    stableFile(join(dir, "console-credential"), () => `${hex(16)}\n`),
    stableFile(join(dir, `template-aliases-${aliasName}`), () => aliases),
  ]);
  return { dir, keyFile, tokenFile, secretFile, consoleFile, aliasFile, buildFolder: join(dir, "builds") };
}

/** Level by level: Node's recursive `mkdir` never returns below a folder that takes no new ones, such as `/proc`. */
async function makeFolder(dir: string): Promise<void> {
  try {
    await mkdir(dir, { mode: 0o700 });
  } catch (error) {
    if (hasCode(error, "EEXIST") && (await stat(dir)).isDirectory()) return;
    const above = dirname(dir);
    if (!hasCode(error, "ENOENT") || above === dir) throw error;
    await makeFolder(above);
    await mkdir(dir, { mode: 0o700 }).catch((again: unknown) => {
      // Another run may have been quicker.
      if (!hasCode(again, "EEXIST")) throw again;
    });
  }
}

function hex(bytes: number): string {
  return randomBytes(bytes).toString("hex");
}

/** Makes a file once and returns its path: a complete file appears or none. */
async function stableFile(path: string, make: () => string): Promise<string> {
  try {
    await access(path);
    return path;
  } catch (error) {
    if (!hasCode(error, "ENOENT")) throw error;
  }
  const fresh = `${path}.${hex(6)}`;
  await writeFile(fresh, make(), { mode: 0o600, flag: "wx" });
  try {
    await link(fresh, path);
  } catch (error) {
    if (!hasCode(error, "EEXIST")) throw error;
  } finally {
    await unlink(fresh);
  }
  return path;
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
