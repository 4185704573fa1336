import { durationMs, formatDuration, meshFlags, meshOptions, textOf, UsageError } from "@org/command-line";
import type { CommandCall, FlagOptions, ProgramSpec } from "@org/command-line";
import { Flags as ProxyFlags } from "@org/envdproxy";
import { DEFAULT_STALE_AFTER_MS } from "@org/kubeinventory";
import type { ProxyConfig } from "./compose.ts";
import type { InventoryConfig } from "./inventory.ts";

/** The data plane's flags stand alone here: no prefix. */
const PROXY_PREFIX = "";
const GROUP = "Data plane:";
const NODES = "Nodes:";

/** Flags that count for one kind of inventory alone. */
const OF_INVENTORY: Readonly<Record<InventoryConfig["kind"], readonly string[]>> = {
  mesh: ["sandboxd-seeds", "inventory-poll"],
  kube: ["inventory-stale-after"],
};

const inventoryOptions: FlagOptions = {
  inventory: {
    type: "string",
    default: "mesh",
    group: NODES,
    describe:
      "Where nodes and sandboxes are learned: mesh asks the nodes, kube watches NodeInventory objects of the cluster that " +
      "KUBECONFIG, the pod or ~/.kube/config names",
  },
  "inventory-stale-after": {
    type: "string",
    default: formatDuration(DEFAULT_STALE_AFTER_MS),
    group: NODES,
    describe:
      "With --inventory=kube: drop a node whose object is this much older than the fleet's newest; 0 stands for the default",
  },
};

const ownOptions: FlagOptions = {
  domain: {
    type: "string",
    default: "",
    group: GROUP,
    describe: "Base domain of sandboxes, required: clients reach <port>-<sandboxID>.<domain>",
  },
  namespace: {
    type: "string",
    default: "default",
    group: GROUP,
    describe: "Serve the sandboxes of this namespace; empty serves all. A filter, not an access boundary",
  },
  "e2b-envd-secret-file": {
    type: "string",
    default: "",
    group: GROUP,
    describe: "File with the secret of derived access tokens, the same as the control plane's",
  },
};

/** Commands and flags of the program. */
export function programSpec(version: string): ProgramSpec {
  return {
    name: "envd-proxy",
    version,
    envPrefix: "ENVD_PROXY_",
    commands: {
      $0: {
        describe: "Route E2B SDK traffic to sandboxes on sandboxd nodes",
        options: { ...inventoryOptions, ...meshOptions, ...ownOptions, ...ProxyFlags.options(PROXY_PREFIX) },
        examples: [
          [
            "envd-proxy --sandboxd-seeds=10.0.0.1:7777 --sandboxd-token-file=token --domain=sandbox.example.com --tls-cert-file=c.pem --tls-private-key-file=k.pem",
            "Data plane on :8443",
          ],
          [
            "envd-proxy --inventory=kube --sandboxd-token-file=token --domain=sandbox.example.com",
            "In a pod of the cluster whose nodes publish NodeInventory objects",
          ],
        ],
      },
    },
  };
}

/**
 * The program's configuration out of its flags.
 * @throws an error with the code `invalid_flag`, or UsageError, for a value that cannot be read, and for a flag of
 * another kind of inventory
 */
export function proxyConfig({ values, sources }: Pick<CommandCall, "values" | "sources">): ProxyConfig {
  const { seeds, pollIntervalMs, ...access } = meshFlags(values);
  const kind = textOf(values, "inventory");
  if (kind !== "mesh" && kind !== "kube") {
    throw new UsageError(`invalid value ${JSON.stringify(kind)} for --inventory: want mesh or kube`);
  }
  const idle = OF_INVENTORY[kind === "mesh" ? "kube" : "mesh"].find((flag) => sources[flag] !== "default");
  if (idle !== undefined) {
    throw new UsageError(`--${idle} counts for nothing with --inventory=${kind}: leave one of them out`);
  }
  const stale = textOf(values, "inventory-stale-after");
  const staleAfterMs = durationMs(stale);
  if (staleAfterMs === undefined || staleAfterMs < 0) {
    throw new UsageError(
      `invalid value ${JSON.stringify(stale)} for --inventory-stale-after: want a duration such as 90s`,
    );
  }
  return {
    ...access,
    inventory:
      kind === "mesh"
        ? { kind, seeds, pollIntervalMs }
        : { kind, staleAfterMs: staleAfterMs || DEFAULT_STALE_AFTER_MS },
    domain: textOf(values, "domain"),
    namespace: textOf(values, "namespace"),
    envdSecretFile: textOf(values, "e2b-envd-secret-file"),
    proxy: ProxyFlags.from(values, PROXY_PREFIX),
  };
}
