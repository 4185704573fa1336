import { E2bError } from "./errors.ts";

const MAX_LENGTH = 63;
const PATTERN = /^[a-zA-Z0-9][a-zA-Z0-9._:/-]*$/;

/**
 * The name that something of this API has on nodes, where `prefix` tells its namespace.
 * @throws E2bError `bad_request` with the room that the prefix leaves
 */
export function nodeName(what: string, prefix: string, name: string): string {
  const stamped = prefix + name;
  if (stamped.length > MAX_LENGTH || !PATTERN.test(stamped)) {
    const room = Math.max(0, MAX_LENGTH - prefix.length);
    throw new E2bError("bad_request", `${what}: at most ${room} characters of a-z A-Z 0-9 . _ : / - are allowed here`);
  }
  return stamped;
}
