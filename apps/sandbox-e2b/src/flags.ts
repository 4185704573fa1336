import { meshFlags, meshOptions, UsageError } from "@org/command-line";
import type { FlagOption, FlagOptions, FlagValues, ProgramSpec } from "@org/command-line";
import { Flags as ConsoleFlags } from "@org/console";
import { Flags as E2bFlags } from "@org/e2bcompat";
import { Flags as ProxyFlags } from "@org/envdproxy";
import type { ServiceConfig } from "./compose.ts";

const DEVELOPMENT = "Development:";
const NODE = "Node:";

/** Prefix of the proxy's flags in this program. */
const PROXY_PREFIX = "envd-proxy-";

const guestOptions: FlagOptions = {
  isolation: {
    type: "string",
    default: "auto",
    group: NODE,
    describe: "How guests are kept apart: auto, bubblewrap, unshare or process; process isolates nothing",
  },
  "state-dir": {
    type: "string",
    default: "",
    group: NODE,
    describe: "Folder for secrets and guest trees; empty is sandbox-e2b under $XDG_STATE_HOME or ~/.local/state",
  },
  "refill-delay": {
    type: "string",
    // Long enough for the first command of the sandbox that was just taken, which a start would slow down.
    default: "100ms",
    group: NODE,
    describe: "Wait this long before a taken warm guest is replaced",
  },
  "max-claims": {
    type: "number",
    default: 0,
    group: NODE,
    describe: "At most this many sandboxes per node; 0 sets no limit",
  },
};

const devOptions: FlagOptions = {
  nodes: { type: "number", default: 1, group: DEVELOPMENT, describe: "How many development nodes to start" },
  image: {
    type: "string",
    default: "e2b-rt:24.04",
    group: DEVELOPMENT,
    describe: "Name of the guest image, as pools, aliases and replies carry it",
  },
  warm: { type: "number", default: 2, group: DEVELOPMENT, describe: "Warm guests per node without network" },
  "warm-egress": { type: "number", default: 1, group: DEVELOPMENT, describe: "Warm guests per node with network" },
  tls: {
    type: "boolean",
    default: false,
    group: DEVELOPMENT,
    describe: "Serve the data plane over TLS, with a certificate that is made in the state folder when none is given",
  },
  "env-file": {
    type: "string",
    default: "",
    // Node takes --env-file for itself when the program is not started by its bin or by `node --`.
    alias: "write-env-file",
    group: DEVELOPMENT,
    describe: "Write the variables the E2B SDKs read to this file (dotenv, mode 0600) once everything is ready",
  },
};

const devNodeOptions: FlagOptions = {
  listen: { type: "string", default: "127.0.0.1:7777", group: NODE, describe: "Where the node's API listens" },
  advertise: {
    type: "string",
    default: "",
    group: NODE,
    describe: "Address under which the control plane and the peers reach this node; empty is the bound address",
  },
  peers: {
    type: "string",
    repeatable: true,
    group: NODE,
    describe: "Addresses of the other nodes, comma-separated",
  },
  "token-file": {
    type: "string",
    default: "",
    group: NODE,
    describe: "File with the fleet's root api_token; required unless --open",
  },
  "tenant-file": {
    type: "string",
    default: "",
    group: NODE,
    describe: 'File of tenants, one "name token [max_claims]" per line; all nodes of a mesh share it',
  },
  open: {
    type: "boolean",
    default: false,
    group: NODE,
    describe: "Serve everybody who can connect, without any token; on a loopback address only",
  },
  pool: {
    type: "string",
    repeatable: true,
    group: NODE,
    describe: "Keep guests warm: template[,net[,size]]=count, net none or egress; may be given several times",
  },
  "refuse-unpooled": {
    type: "boolean",
    default: false,
    group: NODE,
    describe: "Refuse templates that no pool serves, instead of starting a plain guest",
  },
  egress: { type: "boolean", default: true, group: NODE, describe: "Offer the lane with network" },
  "allow-faults": {
    type: "boolean",
    default: false,
    group: NODE,
    describe: "Serve /debug/faults, by which the operator makes requests fail; for tests",
  },
  ...guestOptions,
};

/** Flags of the service, which `dev` takes as well. */
function serviceOptions(): FlagOptions {
  return { ...meshOptions, ...E2bFlags.options(), ...ProxyFlags.options(PROXY_PREFIX), ...ConsoleFlags.options() };
}

const doctorOptions: FlagOptions = {
  claim: {
    type: "boolean",
    default: true,
    group: "Doctor:",
    describe: "Take one warm sandbox for a moment, and look at the daemon in it",
  },
  json: { type: "boolean", default: false, group: "Doctor:", describe: "Print each finding as a line of JSON" },
};

/** What `dev` uses where the service wants to be told. The port is 0xE2B, the data plane's and the console's are the next ones. */
const devDefaults: Readonly<Record<string, string>> = {
  "inventory-poll": "1s",
  "e2b-bind-address": "127.0.0.1:3627",
  "e2b-domain": "localhost:3628",
  "envd-proxy-bind-address": "127.0.0.1:3628",
  "envd-proxy-public-ports": "all",
  "console-bind-address": "127.0.0.1:3629",
};

/** Flags whose files `dev` makes in its state folder. */
const devFiles = [
  "sandboxd-token-file",
  "e2b-api-key-file",
  "e2b-template-aliases",
  "e2b-envd-secret-file",
  "e2b-build-dir",
  "console-credential-file",
];

function devServiceOptions(): FlagOptions {
  const options: Record<string, FlagOption> = {};
  for (const [flag, option] of Object.entries(serviceOptions())) {
    const made = devFiles.includes(flag) ? { describe: `${option.describe}; made when not given` } : {};
    const value = devDefaults[flag] === undefined ? {} : { default: devDefaults[flag] };
    options[flag] = { ...option, ...made, ...value };
  }
  return options;
}

/** Commands and flags of the program. */
export function programSpec(version: string): ProgramSpec {
  return {
    name: "sandbox-e2b",
    version,
    envPrefix: "SANDBOX_E2B_",
    commands: {
      $0: {
        describe: "Serve the E2B API over a mesh of sandboxd nodes",
        options: serviceOptions(),
        examples: [
          [
            "sandbox-e2b --sandboxd-seeds=10.0.0.1:7777 --sandboxd-token-file=token --e2b-domain=sandbox.example.com --e2b-api-key-file=keys",
            "Control plane on :8080",
          ],
          [
            "sandbox-e2b … --envd-proxy-bind-address=:8443 --envd-proxy-tls-cert-file=c.pem --envd-proxy-tls-private-key-file=k.pem",
            "Data plane in the same process",
          ],
        ],
      },
      dev: {
        describe: "Try everything on this machine: nodes, API and data plane in one process",
        options: { ...devOptions, ...guestOptions, ...devServiceOptions() },
        examples: [["sandbox-e2b dev --env-file=.env", "Then run any E2B script with that .env"]],
      },
      doctor: {
        describe: "Look at nodes, names, certificate and pools of a service, and say what to mend",
        options: { ...doctorOptions, ...serviceOptions() },
        examples: [["sandbox-e2b doctor <the flags of the service>", "Exit status 1 when there is something to mend"]],
      },
      "dev-node": {
        describe: "Run one development node alone; several of them form a mesh",
        options: devNodeOptions,
        examples: [
          [
            "sandbox-e2b dev-node --listen=127.0.0.1:7001 --peers=127.0.0.1:7002 --token-file=token --pool=e2b-rt:24.04=2",
            "One of two nodes",
          ],
        ],
      },
    },
  };
}

/**
 * The service's configuration out of its flags.
 * @throws an error with the code `invalid_flag`, or UsageError, for a value that cannot be read
 */
export function serviceConfig(values: FlagValues): ServiceConfig {
  return {
    ...meshFlags(values),
    e2b: E2bFlags.from(values),
    proxy: ProxyFlags.from(values, PROXY_PREFIX),
    console: ConsoleFlags.from(values),
  };
}

/**
 * A whole number that is not negative.
 * @throws UsageError for a negative one
 */
export function countOf(values: FlagValues, flag: string): number {
  const value = values[flag];
  if (typeof value !== "number" || value < 0) {
    throw new UsageError(`invalid value ${String(value)} for --${flag}: want a number that is not negative`);
  }
  return value;
}
