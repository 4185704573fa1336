import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";

import { errnoOf } from "../errors.ts";
import type { Identity } from "../guest/identity.ts";
import type { GuestUser } from "../guest/users.ts";

const DIRECTORY_MODE = 0o755;

/**
 * Creates a directory with all its parents; each new level belongs to the user. Levels that others create at the same
 * time are taken as they are. True when the last level is new.
 *
 * @throws the error of `mkdir`; ENOTDIR or EEXIST when a level is no directory
 */
export async function makeDirectories(path: string, user: GuestUser, identity: Identity): Promise<boolean> {
  try {
    return await makeLevel(path, user, identity);
  } catch (error) {
    const parent = dirname(path);
    if (errnoOf(error) !== "ENOENT" || parent === path) throw error;
    await makeDirectories(parent, user, identity);
    return makeLevel(path, user, identity);
  }
}

async function makeLevel(path: string, user: GuestUser, identity: Identity): Promise<boolean> {
  try {
    await mkdir(path, { mode: DIRECTORY_MODE });
  } catch (error) {
    if (errnoOf(error) !== "EEXIST") throw error;
    if ((await stat(path)).isDirectory()) return false;
    throw error;
  }
  await identity.own(path, user);
  return true;
}
