import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";

import type { ProcessConfig } from "@org/envd-client";

import { EnvdError, errnoOf } from "../errors.ts";
import { type Guest, locate } from "../guest/guest.ts";
import { defaultVariables } from "../guest/state.ts";
import type { GuestUser } from "../guest/users.ts";

/** How commands of this guest are started. */
export interface LaunchSettings {
  readonly path: string;
  readonly shell: string;
  readonly setpriv: string;
}

/** A command ready to be spawned. */
export interface Launch {
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Record<string, string>;
  /** Ids for the spawn itself, when no helper sets them. */
  readonly ids: { readonly uid: number; readonly gid: number } | undefined;
  /** Whether the command runs under other ids than the daemon. */
  readonly switched: boolean;
}

/**
 * The shell makes the command the first to go when memory is short and then becomes it, so the pid is the command's own
 * and a missing program is an exit code 127 with the shell's words.
 */
const SCRIPT = '{ echo 100 >/proc/$$/oom_score_adj; } 2>/dev/null; exec "$@"';

/**
 * @throws EnvdError `invalid_argument` for a configuration that cannot be started
 */
export async function prepareLaunch(
  guest: Guest,
  user: GuestUser,
  config: ProcessConfig,
  settings: LaunchSettings,
): Promise<Launch> {
  checkConfig(config);
  const switched = guest.identity.canBecome(user);
  const cwd = await checkWorkdir(guest, user, config.cwd ?? "", switched);
  const home = guest.paths.toHost(user.home);
  const env: Record<string, string> = {
    PATH: settings.path,
    HOME: home,
    USER: user.name,
    LOGNAME: user.name,
    ...defaultVariables(guest.state),
    ...config.envs,
  };
  const command = [settings.shell, "-c", SCRIPT, "sh", config.cmd, ...config.args];
  if (!switched) return { ...split(command), cwd, env, ids: undefined, switched };
  const { uid, gid, groups } = user;
  if (!(await isExecutable(settings.setpriv))) return { ...split(command), cwd, env, ids: { uid, gid }, switched };
  const groupOption = groups.length === 0 ? "--clear-groups" : `--groups=${groups.join(",")}`;
  const helper = [settings.setpriv, `--reuid=${uid}`, `--regid=${gid}`, groupOption, "--"];
  return { ...split([...helper, ...command]), cwd, env, ids: undefined, switched };
}

function split([file = "", ...args]: readonly string[]): { file: string; args: string[] } {
  return { file, args };
}

function checkConfig({ cmd, args, envs }: ProcessConfig): void {
  if (cmd === "") throw new EnvdError("invalid_argument", "the command must not be empty");
  if ([cmd, ...args].some((text) => text.includes("\0"))) {
    throw new EnvdError("invalid_argument", "command and arguments must not contain NUL bytes");
  }
  for (const [name, value] of Object.entries(envs)) {
    if (name === "" || name.includes("=") || name.includes("\0")) {
      throw new EnvdError(
        "invalid_argument",
        `'${name.replaceAll("\0", "\\0")}' is no name of an environment variable`,
      );
    }
    if (value.includes("\0")) {
      throw new EnvdError("invalid_argument", `environment variable '${name}' must not contain a NUL byte`);
    }
  }
}

async function checkWorkdir(guest: Guest, user: GuestUser, asked: string, switched: boolean): Promise<string> {
  const { guest: shown, host } = locate(guest, asked, user);
  const refuse = (why: string): EnvdError => new EnvdError("invalid_argument", `cwd '${shown}' ${why}`);
  try {
    if (!(await stat(host)).isDirectory()) throw refuse("is not a directory");
    await access(host, constants.X_OK);
    if (switched && !guest.identity.canEnter(user, host)) throw refuse("cannot be entered: permission denied");
  } catch (error) {
    if (error instanceof EnvdError) throw error;
    const errno = errnoOf(error);
    if (errno === "ENOENT") throw refuse("does not exist");
    throw refuse(errno === "EACCES" ? "cannot be entered: permission denied" : `cannot be used: ${errno ?? "failed"}`);
  }
  return host;
}

async function isExecutable(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** An error for a spawn that failed. */
export function launchError(error: unknown): EnvdError {
  const errno = errnoOf(error);
  const code =
    errno === "EAGAIN" || errno === "ENOMEM" || errno === "EMFILE" ? "resource_exhausted" : "invalid_argument";
  return new EnvdError(code, `cannot start the command: ${errno ?? "failed"}`, { cause: error });
}
