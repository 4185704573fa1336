import type { DialGuest } from "@org/envd-client";
import { guestAccessToken } from "@org/scale";
import type { SandboxStore } from "@org/scale";
import type { Settings } from "./options.ts";

/** Where the guest's daemon listens. */
const ENVD_PORT = 49_983;

/** Connections to a guest's daemon that never wake the guest: the node refuses them while it is paused. */
export function dialDaemon(store: Pick<SandboxStore, "dialGuestPort">, node: string, id: string): DialGuest {
  return (options) => store.dialGuestPort(node, id, "", ENVD_PORT, options);
}

/** Connections to the daemon of a sandbox that is built in: over its own relay, which keeps it awake. */
export function dialBuildDaemon(
  store: Pick<SandboxStore, "dialGuestPort">,
  node: string,
  id: string,
  claimToken: string,
): DialGuest {
  return (options) => store.dialGuestPort(node, id, claimToken, ENVD_PORT, options);
}

/**
 * The token that the daemon of a sandbox was given. Without derived tokens it has none, and the sandbox's own is not the
 * guest's to learn.
 */
export function daemonToken(settings: Settings, claimToken: string | undefined): string | undefined {
  const { envdSecret } = settings;
  return envdSecret === undefined || claimToken === undefined || claimToken === ""
    ? undefined
    : guestAccessToken(claimToken, envdSecret);
}
