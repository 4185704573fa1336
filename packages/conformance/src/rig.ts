import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Agent, request } from "undici";

import { type NodeAdmin, nodeAdmin } from "./node-admin.ts";
import { waitFor } from "./polling.ts";
import { freePorts } from "./ports.ts";
import type { ManagedProcess, ProcessSet } from "./processes.ts";
import { cleanEnv, type Programs } from "./programs.ts";

/** Which token the clients get: the node's claim token (`seed`), or one derived with a secret (`secret`). */
export type TokenMode = "seed" | "secret";

/** What a client needs to know of a running rig. It travels to the client processes as JSON. */
export interface RigFacts {
  readonly mode: TokenMode;
  readonly apiUrl: string;
  /** Origin of the data plane; requests name the sandbox by headers or by the `Host`. */
  readonly proxyUrl: string;
  readonly domain: string;
  /**
   * Keys of the namespaces `ns1`, `ns2` and `ns3`; the last one is for rows that count what a namespace holds. Those of
   * `ns4` and `ns5` have limits: one sandbox at a time, and two creates in a minute; that of `ns6` bounds what generated requests make.
   */
  readonly keys: {
    readonly one: string;
    readonly two: string;
    readonly three: string;
    readonly limited: string;
    readonly rated: string;
    readonly fuzzed: string;
  };
  /** Image behind the alias `base`. */
  readonly image: string;
  readonly nodeAddresses: readonly string[];
  readonly nodeToken: string;
  readonly pollMs: number;
  /**
   * What must lie between two creates so that lists can tell which came first, in milliseconds: a cluster keeps whole
   * seconds. @default 0
   */
  readonly apartMs?: number;
  /** Process of the control plane. */
  readonly frontPid: number;
  /** How clients find sandboxes: at one origin that they are told, or at the names that they derive. @default by-url */
  readonly transport?: Transport;
  /** Files with the authority behind the data plane's certificate. Absent: it serves cleartext. */
  readonly trust?: { readonly caFile: string; readonly bundleFile: string };
}

/** Ways of clients to the data plane. */
export type Transport = "by-url" | "by-host";

/** A running `sandbox-e2b dev`, or a front over nodes in other processes. */
export interface Rig extends AsyncDisposable {
  readonly facts: RigFacts;
  readonly front: ManagedProcess;
  readonly nodes: readonly NodeAdmin[];
  readonly stateDir: string;
  stop(): Promise<void>;
}

/** Aliases every rig knows beside `base`; the last is what SDKs build on. The first of one image in sort order is what replies name. */
const ALIASES = { default: "base", second: "code-interpreter-v1", medium: "medium-box", build: "e2bdev/base" } as const;

/** The image the rigs keep warm guests of. */
export const IMAGE = "conformance/guest:24.04";

const PLAIN_ALIASES = `${ALIASES.default} ${IMAGE}
${ALIASES.second} ${IMAGE}
${ALIASES.medium} ${IMAGE} medium
${ALIASES.build} ${IMAGE} medium
`;

/** The image is what `dev` calls that of guests with a code interpreter. */
const INTERPRETER_ALIASES = `${ALIASES.second} code-interpreter:v1\n`;

const API_KEYS = {
  one: "e2b_11111111111111111111111111111111",
  two: "e2b_22222222222222222222222222222222",
  three: "e2b_33333333333333333333333333333333",
  limited: "e2b_44444444444444444444444444444444",
  rated: "e2b_55555555555555555555555555555555",
  fuzzed: "e2b_66666666666666666666666666666666",
} as const;

/** How long a service may take to start and to fill its pools while other lanes keep the processors busy. */
const START_MS = 180_000;

const NODE_TOKEN = "conformance-node-token";
const DOMAIN = "sandbox.example.test";

/** Choices of {@link startDev}. */
export interface DevOptions {
  readonly mode: TokenMode;
  readonly isolation?: string | undefined;
  /** Warm guests per node on the lane without network. @default 4 */
  readonly warm?: number;
  /** Warm guests per node on the lane with network. @default 1 */
  readonly warmEgress?: number;
  readonly nodes?: number;
  /** @default 1000 */
  readonly pollMs?: number;
  /** Whether the only template is `code-interpreter-v1`, with a code interpreter. @default false */
  readonly interpreter?: boolean;
  /** Whether the data plane is served over TLS, under names below `localhost` that clients derive. @default false */
  readonly tls?: boolean;
  readonly extraFlags?: readonly string[];
  /** Extra environment of the program. */
  readonly env?: Readonly<Record<string, string>>;
}

/** The files a rig hands to the programs, in a folder that only this rig uses. */
export interface RigFiles {
  readonly dir: string;
  readonly keyFile: string;
  readonly aliasFile: string;
  readonly tokenFile: string;
  readonly secretFile: string;
}

/** Writes keys, aliases, node token and secret into a new folder. */
export async function writeRigFiles(label: string, aliases: string = PLAIN_ALIASES): Promise<RigFiles> {
  const dir = await mkdtemp(join(tmpdir(), `conformance-${label}-`));
  const files: RigFiles = {
    dir,
    keyFile: join(dir, "keys"),
    aliasFile: join(dir, "aliases"),
    tokenFile: join(dir, "token"),
    secretFile: join(dir, "secret"),
  };
  await mkdir(join(dir, "state"), { recursive: true, mode: 0o700 });
  const mode = 0o600;
  await writeFile(
    files.keyFile,
    [
      "# keys of the conformance run",
      `${API_KEYS.one} ns1`,
      `${API_KEYS.two} ns2`,
      `${API_KEYS.three} ns3`,
      `${API_KEYS.limited} ns4 max_sandboxes=1`,
      `${API_KEYS.rated} ns5 create_per_minute=2`,
      `${API_KEYS.fuzzed} ns6 max_sandboxes=8`,
      "",
    ].join("\n"),
    { mode },
  );
  await writeFile(files.aliasFile, aliases, { mode });
  await writeFile(files.tokenFile, `${NODE_TOKEN}\n`, { mode });
  await writeFile(files.secretFile, "conformance-envd-secret\n", { mode });
  return files;
}

/** The service flags every rig gives to its front. */
export function frontFlags(
  files: RigFiles,
  mode: TokenMode,
  apiPort: number,
  proxyPort: number,
  pollMs: number,
  domain: string = DOMAIN,
): string[] {
  return [
    `--e2b-bind-address=127.0.0.1:${apiPort}`,
    `--envd-proxy-bind-address=127.0.0.1:${proxyPort}`,
    `--e2b-domain=${domain}`,
    `--e2b-api-key-file=${files.keyFile}`,
    `--e2b-template-aliases=${files.aliasFile}`,
    `--e2b-envd-secret-file=${mode === "secret" ? files.secretFile : ""}`,
    `--sandboxd-token-file=${files.tokenFile}`,
    `--inventory-poll=${pollMs}ms`,
    "--envd-proxy-public-ports=all",
  ];
}

/** Starts `sandbox-e2b dev` and returns once every pool is full and both surfaces answer. */
export async function startDev(set: ProcessSet, programs: Programs, options: DevOptions): Promise<Rig> {
  const files = await writeRigFiles(
    `dev-${options.mode}`,
    options.interpreter === true ? INTERPRETER_ALIASES : PLAIN_ALIASES,
  );
  const [apiPort = 0, proxyPort = 0] = await freePorts(2);
  const pollMs = options.pollMs ?? 1_000;
  const envFile = join(files.dir, "env");
  const stateDir = join(files.dir, "state");
  const tls = options.tls === true;
  const domain = tls ? `sandbox.localhost:${proxyPort}` : DOMAIN;
  const warm = options.warm ?? 4;
  const warmEgress = options.warmEgress ?? 1;
  const front = await set.start({
    name: `sandbox-e2b dev (${options.mode})`,
    command: process.execPath,
    args: [
      // Without it node would take `--env-file` for its own, wherever it stands.
      "--",
      programs.sandboxE2b,
      "dev",
      `--nodes=${options.nodes ?? 2}`,
      `--env-file=${envFile}`,
      `--state-dir=${stateDir}`,
      `--isolation=${options.isolation ?? "auto"}`,
      `--image=${IMAGE}`,
      `--warm=${warm}`,
      `--warm-egress=${warmEgress}`,
      ...frontFlags(files, options.mode, apiPort, proxyPort, pollMs, domain),
      ...(tls ? ["--tls"] : []),
      ...(options.extraFlags ?? []),
    ],
    env: cleanEnv({ OPERATOR_LOG_LEVEL: "debug", ...options.env }),
  });
  try {
    const up = await front.waitForOutput(/mesh inventory up seeds=\[[^\]]*\] nodes=\[([^\]]*)\]/, START_MS);
    const nodeAddresses = (up[1] ?? "").split(" ").filter((address) => address !== "");
    const nodes = nodeAddresses.map((address) => nodeAdmin(address, NODE_TOKEN));
    await waitFor("the env file of dev", () => readFile(envFile, "utf8"), START_MS);
    const facts: RigFacts = {
      mode: options.mode,
      apiUrl: `http://127.0.0.1:${apiPort}`,
      proxyUrl: `${tls ? "https" : "http"}://127.0.0.1:${proxyPort}`,
      domain,
      keys: API_KEYS,
      image: IMAGE,
      nodeAddresses,
      nodeToken: NODE_TOKEN,
      pollMs,
      frontPid: front.pid,
      ...(tls ? { trust: trustIn(stateDir) } : {}),
    };
    await poolsFull(nodes);
    await surfacesUp(facts);
    return rigOf(facts, front, nodes, stateDir, files.dir);
  } catch (error) {
    await front.stop(2_000);
    await rm(files.dir, { recursive: true, force: true });
    throw error;
  }
}

/** Where `dev --tls` keeps its authority for names below `localhost`. */
function trustIn(stateDir: string): NonNullable<RigFacts["trust"]> {
  const dir = join(stateDir, "tls", "localhost");
  return { caFile: join(dir, "ca.pem"), bundleFile: join(dir, "ca-bundle.pem") };
}

/** Waits until every pool of every node holds as many warm guests as it wants. */
export async function poolsFull(nodes: readonly NodeAdmin[], timeoutMs: number = START_MS): Promise<void> {
  for (const node of nodes) {
    await waitFor(
      `full pools on node ${node.address}`,
      async () => (await node.info()).pools.every((pool) => pool.warm >= pool.target),
      timeoutMs,
      200,
    );
  }
}

/** Waits until both surfaces answer their health routes and the front has seen the full pools. */
export async function surfacesUp(facts: RigFacts): Promise<void> {
  const trust = facts.trust === undefined ? {} : { connect: { ca: await readFile(facts.trust.caFile) } };
  const dispatcher = new Agent(trust);
  for (const url of [`${facts.apiUrl}/health`, `${facts.proxyUrl}/healthz`]) {
    await waitFor(
      url,
      async () => {
        const response = await request(url, { dispatcher });
        await response.body.dump();
        return response.statusCode === 204;
      },
      30_000,
    );
  }
  await dispatcher.close();
  await new Promise((resolve) => setTimeout(resolve, facts.pollMs + 300));
}

/** Bundles a front with its nodes; stopping it stops the front and removes the rig's folder. */
function rigOf(
  facts: RigFacts,
  front: ManagedProcess,
  nodes: readonly NodeAdmin[],
  stateDir: string,
  dir: string,
  others: readonly ManagedProcess[] = [],
): Rig {
  const stop = async (): Promise<void> => {
    await front.stop();
    await Promise.all(others.map((child) => child.stop()));
    await rm(dir, { recursive: true, force: true });
  };
  return { facts, front, nodes, stateDir, stop, [Symbol.asyncDispose]: stop };
}

/** Constants of a rig that other rigs share. */
export const RIG: Pick<RigFacts, "keys" | "nodeToken" | "domain"> = {
  keys: API_KEYS,
  nodeToken: NODE_TOKEN,
  domain: DOMAIN,
};
