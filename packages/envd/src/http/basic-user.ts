import type { IncomingMessage } from "node:http";

import { EnvdError } from "../errors.ts";
import type { Guest } from "../guest/guest.ts";
import type { UserOf } from "../rpc/dispatcher.ts";

/** The name in a basic `Authorization` header; other schemes are not for the daemon. The password is ignored. */
export function basicUserName(req: IncomingMessage): string | undefined {
  const found = /^basic +([A-Za-z0-9+/=_-]*)\s*$/i.exec(req.headers.authorization ?? "");
  if (found?.[1] === undefined) return undefined;
  const text = Buffer.from(found[1], "base64").toString("utf8");
  const colon = text.indexOf(":");
  return colon === -1 ? undefined : text.slice(0, colon);
}

/** Finds the user of a call by its basic name, else the default user. */
export function createUserLookup({ users, state }: Pick<Guest, "users" | "state">): UserOf {
  return (req) => {
    const asked = basicUserName(req);
    const name = asked ?? state.defaultUser;
    if (name === "") throw new EnvdError("unauthenticated", "no user named and no default user set");
    const user = users.current().find(name);
    if (user === undefined) throw new EnvdError("unauthenticated", `invalid username: '${name}'`);
    return user;
  };
}
