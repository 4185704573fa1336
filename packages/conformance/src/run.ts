import { rm } from "node:fs/promises";
import { type ClientId, SHARED_SUITES } from "./catalogue.ts";
import { clientFacts, installedModuleVersion } from "./client-facts.ts";
import { type Launcher, launcherFor, runClientSuite } from "./clients.ts";
import { CONTROL_SUITES, controlLanes } from "./control-run.ts";
import { dataLanes } from "./data-run.ts";
import { listedRows } from "./harness-catalogue.ts";
import { type HarnessRow, runHarnessRows } from "./harness-rows.ts";
import { runFuzzSuite } from "./fuzz-run.ts";
import { runLongSuite } from "./long-run.ts";
import { runHostileSuite } from "./hostile-run.ts";
import { isInterpreterClient, runInterpreterSuite } from "./interpreter-run.ts";
import { kubeLanes, runKubeReal } from "./kube-run.ts";
import { type Lane, runLanes } from "./lanes.ts";
import { runNodeSuite } from "./node-run.ts";
import { protocolLanes } from "./protocol-run.ts";
import type { RunContext } from "./run-context.ts";
import { cleanEnv } from "./programs.ts";
import { frontFlags, type Rig, startDev, type TokenMode, writeRigFiles } from "./rig.ts";
import { CLI_CLIENT, cliRows } from "../suites/cli.ts";
import { cliBuildRows } from "../suites/cli-builds.ts";
import { capacityRows, failureRows, startupRows } from "../suites/failures.ts";
import { consoleRows } from "../suites/console.ts";
import { faultLanes } from "../suites/faults.ts";
import { firstScriptRows } from "../suites/first-script.ts";
import { ISOLATIONS, isolationRows } from "../suites/isolation.ts";
import { meshRows } from "../suites/mesh.ts";
import { teardownRows } from "../suites/teardown.ts";

const MODES: readonly TokenMode[] = ["secret", "seed"];
const SDK_CLIENTS: readonly ClientId[] = ["js-2.51", "js-2.50", "py-2.51", "py-2.51-async", "py-newest"];

/** Suites that `quick` repeats with the nodes' own tokens: those in which the token takes another way. */
const SEED_SUITES: readonly string[] = ["base", "resume", "commands", "pty", "traffic"];

/** Suites that `quick` runs with the JavaScript SDK before the newest: what creates, lists and ends sandboxes has changed. */
const PREVIOUS_JS_SUITES: readonly string[] = ["base", "paging", "alias", "surface"];

/** Suites that the harness itself runs, beside those of {@link SHARED_SUITES}. */
const HARNESS_SUITES: readonly string[] = [
  "cli",
  "failures",
  "first-script",
  "startup",
  "capacity",
  "mesh",
  "teardown",
  "interpreter",
  "data",
  "isolation",
  "faults",
  "hostile",
  "fuzz",
  "long",
  "protocols",
  "node",
  "kube",
  "kube-real",
  "console",
  ...Object.keys(CONTROL_SUITES),
];

/** Rows of `failures` in which the token takes another way. */
const TOKEN_FAILURES: readonly string[] = ["F1e", "LOG"];

/** How long a kept-alive connection idles: longer than the 5 s after which Node's servers close one by default. */
const QUICK_IDLE_MS = 7_000;
const IDLE_MS = 61_000;

/** Runs what the arguments ask for and fills the collector. */
export async function run(context: RunContext): Promise<void> {
  const { args } = context;
  const everything = args.suite === "quick" || args.suite === "full";
  const known: readonly string[] = [...SHARED_SUITES, ...HARNESS_SUITES];
  if (!everything && !known.includes(args.suite)) {
    throw new Error(`unknown suite ${args.suite}: want quick, full, ${known.join(", ")}`);
  }
  const wants = (suite: string): boolean => everything || args.suite === suite;
  const asked = args.client ?? undefined;
  const plan: Plan = {
    brief: args.suite === "quick",
    wants,
    clients:
      asked === undefined
        ? SDK_CLIENTS.filter((client) => clientFacts(client).quick || args.suite !== "quick")
        : SDK_CLIENTS.filter((client) => client === asked),
    launchers: new Map(),
    withCli: asked === undefined || asked === CLI_CLIENT,
    withHarness: asked === undefined,
  };
  const needsClients = wants("capacity") || wants("data") || args.suite === "kube" || SHARED_SUITES.some(wants);
  for (const client of needsClients ? plan.clients : []) {
    const launcher = await launcherFor(context.set, client);
    plan.launchers.set(client, launcher);
    noteVersion(context, client, launcher);
    context.say(`${client}: ${launcher.kind === "ready" ? `e2b ${launcher.version}` : launcher.reason}`);
  }
  if (plan.withCli && (wants("cli") || wants("builds"))) {
    context.versions.set(CLI_CLIENT, await installedModuleVersion("@e2b/cli"));
  }
  await runLanes([...sharedLanes(context, plan), ...(plan.withHarness ? harnessLanes(context, plan) : [])]);
}

/** What a run asks for. */
interface Plan {
  /** Whether it is the quick run. */
  readonly brief: boolean;
  readonly wants: (suite: string) => boolean;
  readonly clients: readonly ClientId[];
  readonly launchers: Map<ClientId, Launcher>;
  readonly withCli: boolean;
  readonly withHarness: boolean;
}

/** Lanes of clients: each has a `dev` of its own. */
function sharedLanes(context: RunContext, plan: Plan): Lane[] {
  const { brief, wants, clients, launchers, withCli, withHarness } = plan;
  const lanes: Lane[] = [];
  for (const mode of MODES) {
    const suites = SHARED_SUITES.filter(wants);
    const job = (group: readonly ClientId[], first: boolean, last: boolean): SharedRigJob => ({
      suitesOf: (client) =>
        suites.filter(
          (suite) =>
            !brief ||
            ((mode === "secret" || SEED_SUITES.includes(suite)) &&
              (client !== "js-2.50" || PREVIOUS_JS_SUITES.includes(suite))),
        ),
      clients: group,
      launchers,
      withCli: last && withCli && wants("cli") && !(brief && mode === "seed"),
      // Builds need the secret.
      withCliBuilds: last && withCli && wants("builds") && mode === "secret",
      withFailures: first && withHarness && wants("failures"),
      brief,
    });
    // A quick run has few rows for the second mode, which one `dev` is enough for.
    const groups = brief && mode === "seed" ? [clients] : clientGroups(clients);
    for (const [index, group] of groups.entries()) {
      const one = job(group, index === 0, index === groups.length - 1);
      if ((group.length > 0 && suites.length > 0) || one.withCli || one.withCliBuilds || one.withFailures) {
        lanes.push({
          name: [...group, mode].join(" "),
          run: () => sharedRig(context, mode, one),
        });
      }
    }
  }
  if (wants("capacity")) {
    lanes.push({ name: "capacity", run: () => capacityRig(context, clients, launchers, withHarness) });
  }
  if (wants("data") && clients.length > 0) {
    lanes.push(...dataLanes(context, clients, launchers));
  }
  // `quick` leaves it out: it fetches programs and takes minutes.
  if (wants("kube") && !brief) {
    lanes.push(...kubeLanes(context, clients, launchers, withHarness));
  }
  const wanted = context.args.client;
  if (wants("interpreter") && (wanted === undefined || isInterpreterClient(wanted))) {
    for (const mode of brief ? (["secret"] as const) : MODES) {
      lanes.push({ name: `interpreter ${mode}`, run: () => runInterpreterSuite(context, [mode]) });
    }
  }
  return lanes;
}

/** Clients that share a `dev`: what they share in time is left of a processor for others. */
function clientGroups(clients: readonly ClientId[]): readonly (readonly ClientId[])[] {
  const javascript = clients.filter((client) => client.startsWith("js-"));
  const others = clients.filter((client) => !client.startsWith("js-")).map((client) => [client]);
  return javascript.length === 0 && others.length > 0 ? others : [javascript, ...others];
}

/** Lanes of the harness itself, which mostly wait. */
function harnessLanes(context: RunContext, plan: Plan): Lane[] {
  const { set, programs, args } = context;
  const { brief, wants } = plan;
  const lane = (suite: string, rows: () => Promise<void>): Lane[] => (wants(suite) ? [{ name: suite, run: rows }] : []);
  return [
    ...lane("mesh", () => rowsAndClose(context, "mesh", meshRows(set, programs, args.isolation))),
    ...lane("teardown", () => rowsOf(context, "teardown", teardownRows(set, programs, args.isolation))),
    ...lane("node", () => runNodeSuite(context)),
    ...lane("isolation", async () => {
      for (const isolation of ISOLATIONS) {
        await rowsAndClose(context, "isolation", isolationRows(set, programs, isolation));
      }
    }),
    ...lane("hostile", () => runHostileSuite(context)),
    // By its own name only: it takes minutes of a whole processor.
    ...(args.suite === "fuzz" ? lane("fuzz", () => runFuzzSuite(context)) : []),
    ...(args.suite === "kube-real" ? lane("kube-real", () => runKubeReal(context)) : []),
    ...(args.suite === "long" ? lane("long", () => runLongSuite(context)) : []),
    ...(wants("protocols") && !brief ? protocolLanes(context) : []),
    ...lane("faults", async () => {
      // Lanes of their own, which mostly wait as well.
      const lanes = faultLanes({ set, programs, isolation: args.isolation });
      await Promise.all(
        lanes.map((rows) =>
          rowsOf(
            context,
            "faults",
            rows.filter((row) => row.quick || !brief),
          ),
        ),
      );
    }),
    ...lane("startup", () =>
      rowsOf(
        context,
        "startup",
        startupRows((label, change) => startFails(context, label, change)),
      ),
    ),
    ...lane("first-script", () => rowsAndClose(context, "first-script", firstScriptRows(set, programs))),
    ...(brief ? [] : lane("console", () => rowsAndClose(context, "console", consoleRows(set, programs)))),
    ...(brief ? [] : controlLanes(context, wants)),
  ];
}

/** Remembers which version of a client runs. */
function noteVersion(context: RunContext, client: ClientId, launcher: Launcher): void {
  if (launcher.kind === "ready") {
    context.versions.set(client, launcher.version);
  }
}

/** Suites and rows, for `--list`. */
export function listing(): string {
  return listedRows()
    .map((row) => `${row.suite.padEnd(15)} ${row.id.padEnd(12)} ${row.title}\n`)
    .join("");
}

interface SharedRigJob {
  readonly suitesOf: (client: ClientId) => readonly string[];
  readonly clients: readonly ClientId[];
  readonly launchers: ReadonlyMap<ClientId, Launcher>;
  readonly withCli: boolean;
  readonly withCliBuilds: boolean;
  readonly withFailures: boolean;
  readonly brief: boolean;
}

/** One `dev` that all clients use one after the other. */
async function sharedRig(context: RunContext, mode: TokenMode, job: SharedRigJob): Promise<void> {
  const { set, programs, args, collector, say } = context;
  const begun = performance.now();
  const rig = await startDev(set, programs, { mode, isolation: args.isolation, warm: 12, warmEgress: 1 });
  say(`dev (${mode}) is up after ${Math.round(performance.now() - begun)} ms`);
  try {
    for (const client of job.clients) {
      for (const suite of job.suitesOf(client)) {
        const launcher = job.launchers.get(client) ?? { kind: "absent", reason: "no launcher" };
        await runClientSuite({
          set,
          launcher,
          client,
          suite,
          rig: rig.facts,
          collector,
          onlyRow: args.row,
          onRow: say,
        });
        await stillUp(context, rig, suite, `${client} ${mode}`);
      }
    }
    if (job.withCli) {
      await rowsAndClose(context, "cli", cliRows(set, rig.facts), `${CLI_CLIENT} ${mode}`);
    }
    if (job.withCliBuilds) {
      await rowsAndClose(context, "builds", cliBuildRows(set, rig.facts), `${CLI_CLIENT} ${mode}`);
    }
    if (job.withFailures) {
      const rows = failureRows(rig, job.brief ? QUICK_IDLE_MS : IDLE_MS);
      // Most shapes of errors do not depend on whose token it is.
      const wanted = job.brief && mode === "seed" ? rows.filter(({ id }) => TOKEN_FAILURES.includes(id)) : rows;
      await rowsOf(context, "failures", wanted, `raw ${mode}`);
    }
  } finally {
    await rig.stop();
  }
}

/** A client that ends the server ends all rows after it: say so once, where it happened. */
async function stillUp(context: RunContext, rig: Rig, suite: string, client: string): Promise<void> {
  if (!rig.front.running()) {
    context.collector.add({
      suite,
      client,
      row: "UP",
      title: "the server outlives the suite",
      status: "fail",
      detail: rig.front.tail(),
      ms: 0,
    });
    throw new Error(`the server ended during ${suite} of ${client}\n${rig.front.tail()}`);
  }
}

/** A fleet without network lane and with room for few, for rows that need exactly that. */
async function capacityRig(
  context: RunContext,
  clients: readonly ClientId[],
  launchers: ReadonlyMap<ClientId, Launcher>,
  withHarness: boolean,
): Promise<void> {
  const { set, programs, args, collector, say } = context;
  await using rig = await startDev(set, programs, {
    mode: "secret",
    isolation: args.isolation,
    warm: 2,
    warmEgress: 0,
    extraFlags: ["--max-claims=2"],
  });
  for (const client of clients) {
    const launcher = launchers.get(client) ?? { kind: "absent", reason: "no launcher" };
    await runClientSuite({
      set,
      launcher,
      client,
      suite: "default-create",
      rig: rig.facts,
      collector,
      onlyRow: args.row,
      onRow: say,
    });
  }
  if (withHarness) {
    await rowsOf(context, "capacity", capacityRows(rig), "raw secret");
  }
}

async function rowsOf(
  context: RunContext,
  suite: string,
  rows: readonly HarnessRow[],
  client = "harness",
): Promise<void> {
  const { collector, args, say } = context;
  await runHarnessRows(rows, { suite, client, collector, onlyRow: args.row, onRow: say });
}

/** Rows that hold a rig of their own, which is closed whatever becomes of them. */
async function rowsAndClose(
  context: RunContext,
  suite: string,
  held: { readonly rows: readonly HarnessRow[]; readonly close: () => Promise<void> },
  client?: string,
): Promise<void> {
  try {
    await rowsOf(context, suite, held.rows, client);
  } finally {
    await held.close();
  }
}

/** Starts the service with flags that must end it, over a node that is not needed. */
async function startFails(
  context: RunContext,
  label: string,
  change: (dir: string) => Promise<readonly string[]>,
): Promise<{ code: number | null; stderr: string }> {
  const files = await writeRigFiles(label);
  const flags = [`--sandboxd-seeds=127.0.0.1:9`, ...frontFlags(files, "secret", 0, 0, 500)];
  const changed = await change(files.dir);
  const names = new Set(changed.map((flag) => flag.split("=")[0]));
  const aliasNames = ["--e2b-template-aliases", "--e2b-template-alias-file"];
  const replaced = (flag: string): boolean => {
    const name = flag.split("=")[0] ?? "";
    return names.has(name) || (aliasNames.includes(name) && aliasNames.some((other) => names.has(other)));
  };
  const child = await context.set.start({
    name: `start ${label}`,
    command: process.execPath,
    args: [context.programs.sandboxE2b, ...flags.filter((flag) => !replaced(flag)), ...changed],
    env: cleanEnv({ OPERATOR_LOG_LEVEL: "info" }),
  });
  const timer = setTimeout(() => child.signal("SIGKILL", true), 20_000);
  const { code } = await child.ended;
  clearTimeout(timer);
  await rm(files.dir, { recursive: true, force: true });
  return { code, stderr: child.stderr() };
}
