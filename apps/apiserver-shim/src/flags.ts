import { formatDuration, meshOptions, nodeTokenOptions, textOf, UsageError } from "@org/command-line";
import type { CommandCall, FlagOptions, FlagValues, ProgramSpec } from "@org/command-line";
import { Flags as E2bFlags } from "@org/e2bcompat";
import { DEFAULT_STALE_AFTER_MS } from "@org/kubeinventory";
import { authConfig, authOptions } from "./auth-flags.ts";
import type { AuthConfig } from "./auth-flags.ts";
import { durationOf, refuseSet, text, toggle } from "./flag-kinds.ts";
import { servingConfig, servingOptions } from "./serving-flags.ts";
import type { ServingConfig } from "./serving-flags.ts";

/** Everything the program is configured with. */
export interface ShimConfig {
  /** A secret. */
  readonly token: string;
  readonly tokenFile: string;
  readonly caFile: string;
  /** Age, against the fleet's newest, at which a node's inventory counts for nothing. */
  readonly staleAfterMs: number;
  readonly uniqueNames: boolean;
  /** Absent: the driver is off. */
  readonly driver: { readonly syncIntervalMs: number } | undefined;
  /** Absent: the E2B API is off. */
  readonly e2b: E2bFlags | undefined;
  readonly serving: ServingConfig;
  readonly auth: AuthConfig;
}

const FLEET = "Fleet:";
const GENERIC = "Debugging:";

const DEFAULT_SYNC_INTERVAL_MS = 5000;

const fleetOptions: FlagOptions = {
  ...nodeTokenOptions,
  "sandboxd-ca-file": text(
    "Nodes:",
    "",
    meshOptions["sandboxd-ca-file"]?.describe ?? "PEM certificates that nodes are verified against",
  ),
  "inventory-stale-after": text(
    FLEET,
    formatDuration(DEFAULT_STALE_AFTER_MS),
    "Drop a node whose inventory is this much older than the fleet's newest; 0 stands for the default",
  ),
  "unique-sandbox-names": toggle(
    FLEET,
    false,
    "Refuse to create a Sandbox of a name that is held, with 409; otherwise a second one is claimed",
  ),
  "enable-warm-pool-driver": toggle(FLEET, true, "Set the nodes' pools from SandboxWarmPool objects"),
  "warm-pool-sync-interval": text(FLEET, "0s", "Time between two runs of the driver; 0 stands for 5s"),
  "enable-e2b-api": toggle(FLEET, false, "Serve the E2B API as well"),
};

/** Flags that other extension servers have and this one refuses, so that nobody relies on them. */
const refusedOptions: FlagOptions = {
  profiling: toggle(
    GENERIC,
    false,
    "Refused: there is no /debug/pprof; start node with --inspect or --cpu-prof instead",
  ),
  "contention-profiling": toggle(GENERIC, false, "Refused, as profiling"),
  "debug-socket-path": text(GENERIC, "", "Refused, as profiling"),
  "enable-priority-and-fairness": toggle(
    GENERIC,
    false,
    "Refused: requests are limited by number, as 400 reads and 200 writes at once",
  ),
};

/** Flags that count for nothing while what they belong to is off. */
const DEPENDENT: readonly { readonly prefix: string; readonly on: string }[] = [
  { prefix: "e2b-", on: "enable-e2b-api" },
  { prefix: "warm-pool-", on: "enable-warm-pool-driver" },
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
        options: { ...fleetOptions, ...servingOptions, ...authOptions, ...E2bFlags.options(), ...refusedOptions },
        examples: [
          ["apiserver-shim --sandboxd-token-file=token", "In a pod: the aggregated API on :6443"],
          [
            "KUBECONFIG=admin.yaml apiserver-shim --authentication-kubeconfig=admin.yaml --authorization-kubeconfig=admin.yaml --sandboxd-token-file=token",
            "Outside of the cluster",
          ],
        ],
      },
    },
  };
}

/**
 * The program's configuration out of its flags.
 * @throws an error with the code `invalid_flag`, or UsageError, for a value that cannot be read, and for a flag that
 * would count for nothing
 */
export function shimConfig({ values, sources }: Pick<CommandCall, "values" | "sources">): ShimConfig {
  for (const { prefix, on } of DEPENDENT) {
    const idle = Object.entries(sources).find(([flag, source]) => flag.startsWith(prefix) && source !== "default");
    if (idle !== undefined && values[on] !== true) {
      throw new UsageError(`--${idle[0]} counts for nothing without --${on}: set that, or leave it out`);
    }
  }
  refuseSet(values, "profiling", "there is no /debug/pprof; start node with --inspect or --cpu-prof instead");
  refuseSet(values, "contention-profiling", "there is no /debug/pprof; start node with --inspect instead");
  refuseSet(values, "debug-socket-path", "there is no /debug/pprof; start node with --inspect instead");
  refuseSet(
    values,
    "enable-priority-and-fairness",
    "requests are limited by number, as 400 reads and 200 writes at once",
  );
  return {
    token: textOf(values, "sandboxd-token"),
    tokenFile: textOf(values, "sandboxd-token-file"),
    caFile: textOf(values, "sandboxd-ca-file"),
    staleAfterMs: durationOf(values, "inventory-stale-after") || DEFAULT_STALE_AFTER_MS,
    uniqueNames: values["unique-sandbox-names"] === true,
    driver: driverConfig(values),
    e2b: values["enable-e2b-api"] === true ? E2bFlags.from(values) : undefined,
    serving: servingConfig(values),
    auth: authConfig(values),
  };
}

function driverConfig(values: FlagValues): ShimConfig["driver"] {
  const syncIntervalMs = durationOf(values, "warm-pool-sync-interval") || DEFAULT_SYNC_INTERVAL_MS;
  return values["enable-warm-pool-driver"] === true ? { syncIntervalMs } : undefined;
}
