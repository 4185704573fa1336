import { badRequest } from "./claim-input.ts";

const MAX_LENGTH = 63;
const PATTERN = /^[a-zA-Z0-9][a-zA-Z0-9._:/-]*$/;

/**
 * The name that a snapshot has on its node: `<namespace>/<name>`. An unnamed one has the empty name. Store §11.1.
 * @throws ScaleError `bad_request` with the room that the namespace leaves.
 */
export function stampedName(namespace: string, name: string): string {
  const stamped = `${namespace}/${name}`;
  if (namespace === "" || namespace.includes("/")) {
    throw badRequest("checkpoint", "a snapshot needs a namespace without a slash");
  }
  if (stamped.length > MAX_LENGTH || !PATTERN.test(stamped)) {
    const room = Math.max(MAX_LENGTH - namespace.length - 1, 0);
    throw badRequest(
      "checkpoint",
      `a snapshot name in namespace "${namespace}" has at most ${room} of the characters a-z A-Z 0-9 . _ : / -`,
    );
  }
  return stamped;
}

/** The name within a namespace of what a node lists; `undefined` for other namespaces' and for unstamped names. */
export function nameWithin(namespace: string, stamped: string): string | undefined {
  const prefix = `${namespace}/`;
  return stamped.startsWith(prefix) ? stamped.slice(prefix.length) : undefined;
}
