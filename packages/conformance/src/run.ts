import { rm } from "node:fs/promises";

import type { Args } from "./args.ts";
import { CLIENT_ROWS, type ClientId, SHARED_SUITES } from "./catalogue.ts";
import { type Launcher, launcherFor, runClientSuite } from "./clients.ts";
import { type HarnessRow, runHarnessRows } from "./harness-rows.ts";
import { runHostileSuite } from "./hostile-run.ts";
import { isInterpreterClient, runInterpreterSuite } from "./interpreter-run.ts";
import { runNodeSuite } from "./node-run.ts";
import type { ProcessSet } from "./processes.ts";
import { cleanEnv, type Programs } from "./programs.ts";
import type { ResultCollector } from "./results.ts";
import { frontFlags, type Rig, startDev, type TokenMode, writeRigFiles } from "./rig.ts";
import { CLI_CLIENT, cliRows } from "../suites/cli.ts";
import { cliBuildRows } from "../suites/cli-builds.ts";
import { capacityRows, failureRows, startupRows } from "../suites/failures.ts";
import { faultLanes } from "../suites/faults.ts";
import { firstScriptRows } from "../suites/first-script.ts";
import { ISOLATIONS, isolationRows } from "../suites/isolation.ts";
import { meshRows } from "../suites/mesh.ts";
import { teardownRows } from "../suites/teardown.ts";

const MODES: readonly TokenMode[] = ["secret", "seed"];
const QUICK_CLIENTS: readonly ClientId[] = ["js-2.51", "js-2.50", "py-2.51"];

/** Suites that `quick` repeats with the nodes' own tokens: those in which the token takes another way. */
const SEED_SUITES: readonly string[] = ["base", "resume", "commands", "pty", "traffic"];

/** Suites that the harness itself runs, beside those of {@link SHARED_SUITES}. */
const HARNESS_SUITES = [
  "cli",
  "failures",
  "first-script",
  "startup",
  "capacity",
  "mesh",
  "teardown",
  "interpreter",
  "isolation",
  "faults",
  "hostile",
  "node",
] as const;

/** Everything a run works with. */
export interface RunContext {
  readonly set: ProcessSet;
  readonly programs: Programs;
  readonly args: Args;
  readonly collector: ResultCollector;
  readonly say: (line: string) => void;
  /** What must be done before the run may be ended from outside: nodes that are not its own keep what it made. */
  readonly undo: Set<() => Promise<void>>;
}

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
  const clients: readonly ClientId[] =
    asked === undefined
      ? [...QUICK_CLIENTS, ...(args.suite === "full" ? (["py-2.51-async", "py-newest"] as const) : [])]
      : asked === CLI_CLIENT || isInterpreterClient(asked)
        ? []
        : [asked];
  const withCli = asked === undefined || asked === CLI_CLIENT;
  const withHarness = asked === undefined;

  const launchers = new Map<ClientId, Launcher>();
  const needsClients = wants("capacity") || SHARED_SUITES.some(wants);
  for (const client of needsClients ? clients : []) {
    const launcher = await launcherFor(context.set, client);
    launchers.set(client, launcher);
    context.say(`${client}: ${launcher.kind === "ready" ? `e2b ${launcher.version}` : launcher.reason}`);
  }

  const clientLane = async (): Promise<void> => {
    const suites = SHARED_SUITES.filter(wants);
    if (suites.length > 0 || (withCli && wants("cli")) || (withHarness && wants("failures"))) {
      for (const mode of MODES) {
        const brief = args.suite === "quick" && mode === "seed";
        await sharedRig(context, mode, {
          suites: brief ? suites.filter((suite) => SEED_SUITES.includes(suite)) : suites,
          clients,
          launchers,
          withCli: withCli && wants("cli") && !brief,
          withCliBuilds: withCli && wants("builds"),
          withFailures: withHarness && wants("failures"),
        });
      }
    }
    if (wants("capacity")) {
      await capacityRig(context, clients, launchers, withHarness);
    }
    if (wants("interpreter")) {
      await runInterpreterSuite(context, args.suite === "quick" ? ["secret"] : MODES);
    }
  };
  const harnessLane = async (): Promise<void> => {
    if (wants("startup")) {
      await rowsOf(
        context,
        "startup",
        startupRows((label, change) => startFails(context, label, change)),
      );
    }
    if (wants("first-script")) {
      await rowsAndClose(context, "first-script", firstScriptRows(context.set, context.programs));
    }
    if (wants("mesh")) {
      await rowsAndClose(context, "mesh", meshRows(context.set, context.programs, args.isolation));
    }
    if (wants("teardown")) {
      await rowsOf(context, "teardown", teardownRows(context.set, context.programs, args.isolation));
    }
    if (wants("node")) {
      await runNodeSuite(context);
    }
    if (wants("isolation")) {
      for (const isolation of ISOLATIONS) {
        await rowsAndClose(context, "isolation", isolationRows(context.set, context.programs, isolation));
      }
    }
    if (wants("faults")) {
      // Lanes of their own, which mostly wait as well.
      const lanes = faultLanes({ set: context.set, programs: context.programs, isolation: args.isolation });
      const quick = args.suite === "quick";
      await Promise.all(
        lanes.map((rows) => {
          const wanted = rows.filter((row) => row.quick || !quick);
          return rowsOf(context, "faults", wanted);
        }),
      );
    }
    if (wants("hostile")) {
      await runHostileSuite(context);
    }
  };
  // The rows of the harness mostly wait, so they share the time of the clients.
  const ends = await Promise.allSettled([clientLane(), withHarness ? harnessLane() : undefined]);
  for (const end of ends) {
    if (end.status === "rejected") {
      throw end.reason;
    }
  }
}

/** Suites and rows, for `--list`. */
export function listing(): string {
  const lines = CLIENT_ROWS.map((row) => `${row.suite.padEnd(15)} ${row.id.padEnd(6)} ${row.title}`);
  return [...lines, "", `suites of the harness: ${HARNESS_SUITES.join(", ")}`, ""].join("\n");
}

interface SharedRigJob {
  readonly suites: readonly string[];
  readonly clients: readonly ClientId[];
  readonly launchers: ReadonlyMap<ClientId, Launcher>;
  readonly withCli: boolean;
  readonly withCliBuilds: boolean;
  readonly withFailures: boolean;
}

/** One `dev` that all clients use one after the other. */
async function sharedRig(context: RunContext, mode: TokenMode, job: SharedRigJob): Promise<void> {
  const { set, programs, args, collector, say } = context;
  const begun = performance.now();
  const rig = await startDev(set, programs, { mode, isolation: args.isolation, warm: 12, warmEgress: 1 });
  say(`dev (${mode}) is up after ${Math.round(performance.now() - begun)} ms`);
  try {
    for (const client of job.clients) {
      for (const suite of job.suites) {
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
    // Builds need the secret.
    if (job.withCliBuilds && mode === "secret") {
      await rowsAndClose(context, "builds", cliBuildRows(set, rig.facts), `${CLI_CLIENT} ${mode}`);
    }
    if (job.withFailures) {
      await rowsOf(context, "failures", failureRows(rig), `raw ${mode}`);
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
