import type { FileAttributes } from "../files/attributes.ts";
import type { UserDatabase } from "./users.ts";
import type { Identity } from "./identity.ts";
import type { GuestUser } from "./users.ts";
import { type PathMap, resolveGuestPath } from "./paths.ts";
import type { GuestState } from "./state.ts";

/** What the services need to know about the guest they run in. */
export interface Guest {
  readonly state: GuestState;
  readonly users: UserDatabase;
  readonly identity: Identity;
  readonly paths: PathMap;
  readonly attributes: FileAttributes;
}

/** A path of a request, in the words of the client and in those of the file system. */
export interface ResolvedPath {
  readonly guest: string;
  readonly host: string;
}

/** @throws EnvdError `invalid_argument` */
export function locate(guest: Guest, path: string, user: GuestUser): ResolvedPath {
  const resolved = resolveGuestPath(path, user.home, guest.state.defaultWorkdir);
  return { guest: resolved, host: guest.paths.toHost(resolved) };
}
