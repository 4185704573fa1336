import { durationMs, formatDuration, nodeTokenOptions, textOf, UsageError } from "@org/command-line";
import type { FlagOption, FlagOptions, FlagValues, ProgramSpec } from "@org/command-line";
import { Flags as E2bFlags } from "@org/e2bcompat";
import { DEFAULT_STALE_AFTER_MS } from "@org/kubeinventory";
import type { ShimConfig } from "./compose.ts";

const FLEET = "Fleet:";
const SERVING = "Secure serving:";
const AUTH = "Authentication and authorization:";

const text = (group: string, value: string, describe: string): FlagOption => ({
  type: "string",
  default: value,
  group,
  describe,
});
const toggle = (group: string, value: boolean, describe: string): FlagOption => ({
  type: "boolean",
  default: value,
  group,
  describe,
});

const fleetOptions: FlagOptions = {
  "inventory-stale-after": text(
    FLEET,
    formatDuration(DEFAULT_STALE_AFTER_MS),
    "Drop a node whose inventory is this much older than the fleet's newest; 0 stands for the default",
  ),
  "enable-warm-pool-driver": toggle(FLEET, true, "Set the nodes' pools from SandboxWarmPool objects"),
  "warm-pool-sync-interval": text(FLEET, "0s", "Time between two runs of the driver; 0 stands for 5s"),
  "enable-e2b-api": toggle(FLEET, false, "Serve the E2B API as well"),
};

const servingOptions: FlagOptions = {
  "bind-address": text(SERVING, "0.0.0.0", "Address of the aggregated API"),
  "secure-port": {
    type: "number",
    default: 6443,
    group: SERVING,
    describe: "Port of the aggregated API; 0 does not serve it",
  },
  "cert-dir": text(SERVING, "apiserver.local.config/certificates", "Folder of a self-made certificate"),
  "tls-cert-file": text(SERVING, "", "Certificate of the aggregated API"),
  "tls-private-key-file": text(SERVING, "", "Private key of the certificate"),
};

const authOptions: FlagOptions = {
  "authentication-kubeconfig": text(AUTH, "", "Kubeconfig for token reviews; empty is the in-cluster one, if any"),
  "authorization-kubeconfig": text(AUTH, "", "Kubeconfig for access reviews; empty is the in-cluster one, if any"),
  "authentication-token-webhook-cache-ttl": text(AUTH, "10s", "How long a token review counts"),
  "authorization-webhook-cache-authorized-ttl": text(AUTH, "10s", "How long a granted access review counts"),
  "authorization-webhook-cache-unauthorized-ttl": text(AUTH, "10s", "How long a refused access review counts"),
  "authorization-always-allow-paths": text(AUTH, "/healthz,/readyz,/livez", "Paths that need no authorization"),
  "client-ca-file": text(AUTH, "", "Certificate authority of client certificates"),
  "requestheader-client-ca-file": text(AUTH, "", "Certificate authority of the front proxy"),
  "requestheader-allowed-names": text(AUTH, "", "Common names the front proxy may have; empty allows all"),
};

const DURATIONS = [
  "inventory-stale-after",
  "warm-pool-sync-interval",
  "authentication-token-webhook-cache-ttl",
  "authorization-webhook-cache-authorized-ttl",
  "authorization-webhook-cache-unauthorized-ttl",
];

/** Commands and flags of the program. */
export function programSpec(version: string): ProgramSpec {
  return {
    name: "apiserver-shim",
    version,
    envPrefix: "APISERVER_SHIM_",
    commands: {
      $0: {
        describe: "Kubernetes aggregated API over a fleet of sandboxd nodes",
        options: { ...nodeTokenOptions, ...fleetOptions, ...servingOptions, ...authOptions, ...E2bFlags.options() },
      },
    },
  };
}

/**
 * The program's configuration out of its flags.
 * @throws an error with the code `invalid_flag`, or UsageError, for a value that cannot be read
 */
export function shimConfig(values: FlagValues): ShimConfig {
  for (const flag of DURATIONS) {
    const ms = durationMs(textOf(values, flag));
    if (ms === undefined || ms < 0) {
      throw new UsageError(
        `invalid value ${JSON.stringify(textOf(values, flag))} for --${flag}: want a duration such as 90s`,
      );
    }
  }
  if ((textOf(values, "tls-cert-file") === "") !== (textOf(values, "tls-private-key-file") === "")) {
    throw new UsageError("--tls-cert-file and --tls-private-key-file must be set together");
  }
  const staleAfterMs = durationMs(textOf(values, "inventory-stale-after"));
  return { e2b: E2bFlags.from(values), staleAfterMs: staleAfterMs || DEFAULT_STALE_AFTER_MS };
}
