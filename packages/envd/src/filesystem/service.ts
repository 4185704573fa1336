import { lstat, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";

import type { Filesystem } from "@org/envd-client";

import { EnvdError, type EnvdErrorCode, errnoOf } from "../errors.ts";
import { type Guest, locate, type ResolvedPath } from "../guest/guest.ts";
import type { ServiceImpl } from "../rpc/call.ts";
import { describeEntry, type Entry } from "./entry-info.ts";
import { listDirectory } from "./list-directory.ts";
import { makeDirectories } from "./make-parents.ts";

/** The methods that need no watching. */
export type FileMethods = Pick<ServiceImpl<typeof Filesystem>, "stat" | "makeDir" | "move" | "listDir" | "remove">;

/** Files and directories of the guest, with the daemon's rights; what is created belongs to the user of the call. */
export function createFilesystemService(guest: Guest): FileMethods {
  async function describe(at: ResolvedPath): Promise<Entry> {
    try {
      return await describeEntry(guest, at);
    } catch (error) {
      throw fileError(error, at.guest, "stat", { ENOENT: ["not_found", `path '${at.guest}' does not exist`] });
    }
  }

  return {
    async stat({ path }, call) {
      return { entry: await describe(locate(guest, path, call.user())) };
    },
    async makeDir({ path }, call) {
      const user = call.user();
      const at = locate(guest, path, user);
      let isNew: boolean;
      try {
        isNew = await makeDirectories(at.host, user, guest.identity);
      } catch (error) {
        if (errnoOf(error) === "EEXIST" && (await exists(at.host))) {
          throw new EnvdError("invalid_argument", `path '${at.guest}' exists and is not a directory`);
        }
        throw fileError(error, at.guest, "create directory", {});
      }
      if (!isNew) throw new EnvdError("already_exists", `directory '${at.guest}' already exists`);
      return { entry: await describe(at) };
    },
    async move({ source, destination }, call) {
      const user = call.user();
      const from = locate(guest, source, user);
      const to = locate(guest, destination, user);
      const missing = { ENOENT: ["not_found", `path '${from.guest}' does not exist`] } as const;
      try {
        await lstat(from.host);
        await makeDirectories(dirname(to.host), user, guest.identity);
        await rename(from.host, to.host);
      } catch (error) {
        throw fileError(error, from.guest, `move to '${to.guest}'`, missing);
      }
      return { entry: await describe(to) };
    },
    async listDir({ path, depth }, call) {
      const at = locate(guest, path, call.user());
      try {
        if (!(await stat(at.host)).isDirectory()) {
          throw new EnvdError("invalid_argument", `path is not a directory: ${at.guest}`);
        }
        return { entries: await listDirectory(guest, at, depth === 0 ? 1 : depth) };
      } catch (error) {
        throw fileError(error, at.guest, "list directory", {
          ENOENT: ["not_found", `path '${at.guest}' does not exist`],
          ENOTDIR: ["invalid_argument", `path is not a directory: ${at.guest}`],
          ELOOP: ["failed_precondition", `too many symbolic links in '${at.guest}'`],
        });
      }
    },
    async remove({ path }, call) {
      const at = locate(guest, path, call.user());
      try {
        await rm(at.host, { recursive: true, force: true });
      } catch (error) {
        throw fileError(error, at.guest, "remove", {});
      }
      return {};
    },
  };
}

type Known = Readonly<Partial<Record<string, readonly [EnvdErrorCode, string]>>>;

function fileError(error: unknown, path: string, what: string, known: Known): EnvdError {
  if (error instanceof EnvdError) return error;
  const errno = errnoOf(error) ?? "failed";
  const [code, message] = known[errno] ?? ["internal", `cannot ${what} '${path}': ${errno}`];
  return new EnvdError(code, message, { cause: error });
}

async function exists(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => undefined)) !== undefined;
}
