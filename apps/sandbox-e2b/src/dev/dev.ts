import { lookup } from "node:dns/promises";
import { textOf, UsageError } from "@org/command-line";
import type { CommandCall, FlagValue } from "@org/command-line";
import type { DevNode } from "@org/devnode";
import { bindListener } from "@org/envdproxy";
import type { Listener } from "@org/envdproxy";
import { isAddressInUse, prepare, serve } from "../compose.ts";
import type { PreparedService, ServingAddresses } from "../compose.ts";
import { countOf, serviceConfig } from "../flags.ts";
import type { Surroundings } from "../surroundings.ts";
import { banner } from "./banner.ts";
import { sdkEnvironment, writeEnvFile } from "./environment.ts";
import { guestTemplates, INTERPRETER_IMAGE } from "./interpreter.ts";
import { guestFlags } from "./node-options.ts";
import type { GuestFlags } from "./node-options.ts";
import { poolsForAliases } from "./pools.ts";
import { openState, stateFolder } from "./state.ts";
import type { DevState } from "./state.ts";
import { certificateDomain, openDevCertificate } from "./tls/dev-certificate.ts";
import type { DevCertificate } from "./tls/dev-certificate.ts";

/** Taken when the address that was not asked for by the caller is in use. */
const FREE_ADDRESS = "127.0.0.1:0";
const LOOPBACK = /^(127\.|::1$)/;
const MAX_NODES = 16;
/** Clients refuse certificates for `*.localhost`, so TLS needs a name below it. Browsers resolve those as well. */
const TLS_DOMAIN = "sandbox.localhost";
/** How often a running `dev` looks whether its certificate is due. The data plane loads a new one by itself. */
const RENEWAL_CHECK_MS = 6 * 3_600_000;
const TLS_FLAGS = ["envd-proxy-tls-cert-file", "envd-proxy-tls-private-key-file"] as const;
/** What a line of an alias file can carry, and a name that the API leaves to built templates aside. */
const IMAGE = /^(?!e2b\/)[\x21-\x7e]+$/;

/** Nodes that `dev` starts; `undefined` when it uses the caller's. */
interface NodePlan extends GuestFlags {
  readonly count: number;
  readonly image: string;
  readonly warm: number;
  readonly warmEgress: number;
}

/** What `dev` knows before anything is read, bound or started. */
interface DevPlan {
  readonly call: CommandCall;
  readonly given: (flag: string) => boolean;
  readonly nodes: NodePlan | undefined;
  /** Whether a certificate is made. */
  readonly makesCertificate: boolean;
}

/**
 * Reads the flags of `dev`: development nodes, control plane and data plane in this process. What the caller did not
 * set is made: secrets, keys, aliases, addresses.
 * @throws UsageError for flags that make no sense
 */
export function checkDev(call: CommandCall): (around: Surroundings) => Promise<void> {
  const { values, sources } = call;
  const given = (flag: string): boolean => sources[flag] !== "default";
  const { seeds } = serviceConfig(values);
  if (seeds.length > 0 && given("nodes")) {
    throw new UsageError("--nodes starts nodes of our own, --sandboxd-seeds uses others: set one of them");
  }
  const nodes = {
    ...guestFlags(values),
    count: countOf(values, "nodes"),
    image: textOf(values, "image"),
    warm: countOf(values, "warm"),
    warmEgress: countOf(values, "warm-egress"),
  };
  if (nodes.count < 1 || nodes.count > MAX_NODES) throw new UsageError(`--nodes must lie between 1 and ${MAX_NODES}`);
  if (!IMAGE.test(nodes.image)) {
    throw new UsageError(`invalid value ${JSON.stringify(nodes.image)} for --image: want a name without spaces`);
  }
  const plan: DevPlan = {
    call,
    given,
    nodes: seeds.length > 0 ? undefined : nodes,
    makesCertificate: makesCertificate(call, given),
  };
  return (around) => serveDev(plan, around);
}

/** A certificate of the caller's wins over one of ours. */
function makesCertificate({ values }: CommandCall, given: DevPlan["given"]): boolean {
  if (values["tls"] !== true) return false;
  if (textOf(values, "envd-proxy-bind-address") === "") {
    throw new UsageError("--tls is about the data plane, which an empty --envd-proxy-bind-address turns off");
  }
  if (TLS_FLAGS.some((flag) => given(flag) && textOf(values, flag) !== "")) return false;
  const domain = textOf(values, "e2b-domain");
  if (given("e2b-domain") && certificateDomain(domain) === undefined) {
    throw new UsageError(
      `invalid value ${JSON.stringify(domain)} for --e2b-domain: --tls needs a name of two labels or more, such as ${TLS_DOMAIN}, since clients accept no certificate for *.localhost`,
    );
  }
  return true;
}

async function serveDev(plan: DevPlan, around: Surroundings): Promise<void> {
  const {
    call: { values },
    given,
  } = plan;
  const state = await openState(stateFolder(textOf(values, "state-dir"), around.env), textOf(values, "image"));
  const proxyListener = await bindProxy(textOf(values, "envd-proxy-bind-address"), given("envd-proxy-bind-address"));
  const apiAddress = textOf(values, "e2b-bind-address");
  const pageAddress = textOf(values, "console-bind-address");
  const nodes: DevNode[] = [];
  let renewal: NodeJS.Timeout | undefined;
  try {
    const made = madeValues(plan, state, proxyListener);
    const renew = (): Promise<DevCertificate> =>
      openDevCertificate({
        dir: state.dir,
        domain: certificateDomain(textOf({ ...values, ...made }, "e2b-domain")) ?? TLS_DOMAIN,
        env: around.env,
      });
    const certificate = plan.makesCertificate ? await renew() : undefined;
    if (certificate !== undefined) {
      for (const flag of TLS_FLAGS) made[flag] = certificate.pairFile;
      const failed = (err: unknown): void => around.logger.warn({ func: "dev.tls", err }, "certificate not renewed");
      renewal = setInterval(() => void renew().catch(failed), RENEWAL_CHECK_MS).unref();
    }
    const config = serviceConfig({ ...values, ...made });
    // Files are read before the first node starts: the nodes need the token and the aliases in them.
    const prepared = await prepare(config);
    if (plan.nodes !== undefined) await startNodes(nodes, plan.nodes, prepared, state.dir, around);
    const seeds = plan.nodes === undefined ? config.seeds : nodes.map((node) => node.address);
    await serve(
      { ...prepared, config: { ...config, seeds } },
      {
        signal: around.signal,
        logger: around.logger,
        listener: proxyListener,
        apiAddresses: given("e2b-bind-address") ? [apiAddress] : [apiAddress, FREE_ADDRESS],
        consoleAddresses: given("console-bind-address") ? [pageAddress] : [pageAddress, FREE_ADDRESS],
        onServing: (at) => announce(at, { plan, around, prepared, nodes, stateDir: state.dir, certificate }),
      },
    );
  } catch (error) {
    // A signal during start-up ends the program as it should.
    if (!around.signal.aborted) throw error;
  } finally {
    clearInterval(renewal);
    await proxyListener?.close();
    await Promise.all(nodes.map((node) => node.close()));
  }
}

/** The data plane's listener: at its address, or on a free port when somebody has one that the caller did not choose. */
async function bindProxy(address: string, given: boolean): Promise<Listener | undefined> {
  if (address === "") return undefined;
  try {
    return await bindListener(address);
  } catch (error) {
    if (given || !isAddressInUse(error)) throw error;
    return bindListener(FREE_ADDRESS);
  }
}

/** Values for flags that the caller left alone. */
function madeValues(
  { call, given, nodes, makesCertificate: tls }: DevPlan,
  state: DevState,
  proxyListener: Listener | undefined,
): Record<string, FlagValue> {
  const host = tls ? TLS_DOMAIN : "localhost";
  const made: Record<string, FlagValue> = {
    "e2b-envd-secret-file": state.secretFile,
    "e2b-template-aliases": state.aliasFile,
    "console-credential-file": state.consoleFile,
    "e2b-domain": proxyListener === undefined ? host : `${host}:${proxyListener.port}`,
  };
  if (!given("e2b-allow-anonymous")) made["e2b-api-key-file"] = state.keyFile;
  // A token of ours would mean nothing to the caller's own nodes.
  if (nodes !== undefined && !given("sandboxd-token")) made["sandboxd-token-file"] = state.tokenFile;
  Object.assign(made, madeBuilds({ call, given, nodes }, state));
  for (const flag of Object.keys(made)) if (given(flag)) delete made[flag];
  return made;
}

/** Builds are on where they can be: they need a secret, and guests that are kept apart from this machine's own files. */
function madeBuilds(
  { call: { values }, given, nodes }: Omit<DevPlan, "makesCertificate">,
  state: DevState,
): Record<string, FlagValue> {
  const noSecret = given("e2b-envd-secret-file") && textOf(values, "e2b-envd-secret-file") === "";
  const shared = nodes?.isolation === "process" || process.platform !== "linux";
  const on = given("e2b-builds") ? values["e2b-builds"] === true : !noSecret && !shared;
  const s3 = given("e2b-build-store-s3-bucket");
  return { "e2b-builds": on, ...(on && !s3 ? { "e2b-build-dir": state.buildFolder } : {}) };
}

/** Starts the nodes side by side, tells them of each other, and waits for their first guests. */
async function startNodes(
  nodes: DevNode[],
  plan: NodePlan,
  { token, e2b }: PreparedService,
  stateDir: string,
  { signal, logger }: Surroundings,
): Promise<void> {
  const { startDevNode } = await import("@org/devnode");
  const { count, image, warm, warmEgress, ...guests } = plan;
  const images = e2b.aliases.length === 0 ? [{ image, size: "small" }] : e2b.aliases;
  // Guests with a code interpreter take longer, so they come last, and the first one is enough to begin with.
  const ordered = images.toSorted((one, other) => Number(isInterpreter(one)) - Number(isInterpreter(other)));
  const pools = poolsForAliases(ordered, warm, warmEgress);
  const templates = await guestTemplates();
  const started = await Promise.allSettled(
    Array.from({ length: count }, () =>
      startDevNode({ ...guests, ...(token === "" ? {} : { token }), pools, templates, stateDir, logger }),
    ),
  );
  for (const result of started) if (result.status === "fulfilled") nodes.push(result.value);
  for (const result of started) if (result.status === "rejected") throw result.reason;
  for (const node of nodes) {
    node.setPeers(nodes.map((peer) => peer.address).filter((address) => address !== node.address));
  }
  const enough = ({ template, net }: { readonly template: string; readonly net: string }): number =>
    template !== INTERPRETER_IMAGE ? Infinity : net === "none" ? 1 : 0;
  await Promise.all(nodes.map((node) => node.warmed({ signal, enough })));
}

function isInterpreter({ image }: { readonly image: string }): boolean {
  return image === INTERPRETER_IMAGE;
}

/** What {@link announce} tells of. */
interface Announcement {
  readonly plan: DevPlan;
  readonly around: Surroundings;
  readonly prepared: PreparedService;
  readonly nodes: readonly DevNode[];
  readonly stateDir: string;
  readonly certificate: DevCertificate | undefined;
}

/** Tells how to use what is up now, and writes the environment file. */
async function announce(at: ServingAddresses, about: Announcement): Promise<void> {
  const {
    prepared: { e2b },
    nodes,
    stateDir,
    around,
    certificate,
  } = about;
  const { values } = about.plan.call;
  const tls = certificate !== undefined || textOf(values, "envd-proxy-tls-cert-file") !== "";
  // Over an address that names no sandbox, signed file addresses cannot work: better none where the names do.
  const named = certificate !== undefined && (await namesResolve(e2b.domain));
  const variables = sdkEnvironment(
    {
      apiUrl: `http://${dialable(at.api)}`,
      sandboxUrl: at.proxy === undefined || named ? undefined : `${tls ? "https" : "http"}://${dialable(at.proxy)}`,
      domain: e2b.domain,
      apiKey: e2b.keys[0]?.key,
      trust: certificate,
    },
    around.env,
  );
  const envFile = textOf(values, "env-file");
  if (envFile !== "") await writeEnvFile(envFile, variables);
  const isolation = nodes[0]?.isolation ?? "of your nodes";
  const notes = [
    ...(certificate === undefined || named ? [] : [unresolvedNote(e2b.domain)]),
    ...(certificate?.fresh === true ? ["the certificate authority is new: clients have to be told to trust it"] : []),
    ...portNote("API", at.api, textOf(values, "e2b-bind-address")),
    ...portNote("data plane", at.proxy, textOf(values, "envd-proxy-bind-address")),
    ...portNote("console", at.console, textOf(values, "console-bind-address")),
    ...(isolation === "process"
      ? ["isolation process isolates nothing: sandboxes run as you, with your files, and have no code interpreter"]
      : []),
  ];
  const templates = e2b.aliases.map(({ alias }) => alias);
  const caFile = certificate?.caFile;
  const { credentialFile } = about.prepared.config.console;
  const consolePage = at.console === undefined ? undefined : { url: `http://${dialable(at.console)}/`, credentialFile };
  process.stdout.write(
    banner({ variables, nodes: nodes.length, isolation, templates, stateDir, envFile, caFile, consolePage, notes }),
  );
}

/** Whether programs of this machine find the names of sandboxes; browsers find those below `localhost` anyway. */
async function namesResolve(domain: string): Promise<boolean> {
  try {
    const { address } = await lookup(`49983-sb-0.${certificateDomain(domain) ?? domain}`);
    return LOOPBACK.test(address);
  } catch {
    return false;
  }
}

function unresolvedNote(domain: string): string {
  const name = `<port>-<id>.${certificateDomain(domain) ?? domain}`;
  const how = name.endsWith(".localhost")
    ? "the package libnss-myhostname"
    : "a wildcard record or entries of /etc/hosts";
  return `${name} does not resolve here, so E2B_SANDBOX_URL is set, with which addresses of downloadUrl and uploadUrl name no sandbox; ${how} would help`;
}

/** An address that a client on this machine can use. */
function dialable(address: string): string {
  return address.replace(/^(0\.0\.0\.0|\[::\])?:(?=\d+$)/, "127.0.0.1:");
}

/** Says so when a listener is not where it was to be. */
function portNote(what: string, address: string | undefined, wanted: string): string[] {
  const port = wanted.slice(wanted.lastIndexOf(":") + 1);
  if (address === undefined || port === "0" || address.endsWith(`:${port}`)) return [];
  return [`port ${port} is taken, the ${what} listens on ${address}`];
}
