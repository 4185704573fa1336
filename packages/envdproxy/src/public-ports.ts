import { parsePort } from "@org/sandbox-address";
import { EnvdProxyError } from "./errors.ts";

/** Port of the guest daemon. It is never public. */
export const ENVD_PORT = 49_983;

/** Guest ports that are reachable without a token: none, all of them, or these. Never the guest daemon's. */
export type PublicPorts = "none" | "all" | readonly number[];

/**
 * Reads `none`, `all` or a comma-separated list of ports. Throws `invalid_options` for anything else, and for a list
 * with the guest daemon's port.
 */
export function parsePublicPorts(text: string): PublicPorts {
  const word = text.trim();
  if (word === "" || word === "none") {
    return "none";
  }
  if (word === "all") {
    return "all";
  }
  return word.split(",").map((item) => {
    const port = parsePort(item);
    if (port === undefined) {
      throw new EnvdProxyError("invalid_options", `${JSON.stringify(item)} is not "none", "all" or a list of ports`);
    }
    return port;
  });
}

/** A test for public ports, made once. Throws `invalid_options` when the guest daemon's port is listed. */
export function publicPortTest(ports: PublicPorts): (port: number) => boolean {
  if (ports === "none") {
    return () => false;
  }
  if (ports === "all") {
    return (port) => port !== ENVD_PORT;
  }
  if (ports.includes(ENVD_PORT)) {
    throw new EnvdProxyError("invalid_options", `port ${ENVD_PORT} can not be public: it controls the sandbox`);
  }
  const open = new Set(ports);
  return (port) => open.has(port);
}
