import { meshFlags, meshOptions, textOf } from "@org/command-line";
import type { FlagOptions, FlagValues, ProgramSpec } from "@org/command-line";
import { Flags as ProxyFlags } from "@org/envdproxy";
import type { ProxyConfig } from "./compose.ts";

/** The data plane's flags stand alone here: no prefix. */
const PROXY_PREFIX = "";
const GROUP = "Data plane:";

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
        describe: "Route E2B SDK traffic to sandboxes on a mesh of sandboxd nodes",
        options: { ...meshOptions, ...ownOptions, ...ProxyFlags.options(PROXY_PREFIX) },
        examples: [
          [
            "envd-proxy --sandboxd-seeds=10.0.0.1:7777 --sandboxd-token-file=token --domain=sandbox.example.com --tls-cert-file=c.pem --tls-private-key-file=k.pem",
            "Data plane on :8443",
          ],
        ],
      },
    },
  };
}

/**
 * The program's configuration out of its flags.
 * @throws an error with the code `invalid_flag`, or UsageError, for a value that cannot be read
 */
export function proxyConfig(values: FlagValues): ProxyConfig {
  return {
    ...meshFlags(values),
    domain: textOf(values, "domain"),
    namespace: textOf(values, "namespace"),
    envdSecretFile: textOf(values, "e2b-envd-secret-file"),
    proxy: ProxyFlags.from(values, PROXY_PREFIX),
  };
}
