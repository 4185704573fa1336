import type { ClientId } from "./catalogue.ts";
import { type Launcher, runClientSuite } from "./clients.ts";
import { runHarnessRows } from "./harness-rows.ts";
import { startKubeRig } from "./kube-rig.ts";
import { KUBE_MINORS } from "./kube-tools.ts";
import type { Lane } from "./lanes.ts";
import type { RunContext } from "./run-context.ts";
import type { ControlContext, HeldRows } from "../suites/control/context.ts";
import { LANE_NODES } from "../suites/control/lanes.ts";
import { apiRows } from "../suites/kube/api-rows.ts";
import { authRows } from "../suites/kube/auth-rows.ts";
import { chartRows } from "../suites/kube/chart-rows.ts";
import { driverRows } from "../suites/kube/driver-rows.ts";
import { e2bRows } from "../suites/kube/e2b-rows.ts";
import { informerRows } from "../suites/kube/informer-rows.ts";
import { kubectlRows } from "../suites/kube/kubectl-rows.ts";
import { lifeRows } from "../suites/kube/life-rows.ts";
import { REAL_CONFIG } from "../suites/kube/real-cluster.ts";
import { realRows } from "../suites/kube/real-rows.ts";

/** Rows that wait for leases and outages, or start many programs, on a machine that has more to do. */
const LIMIT_MS = 300_000;

/** Clients whose rows are repeated through a shim and a data plane beside it, in the column `<client> kube`. */
export const KUBE_CLIENTS: readonly ClientId[] = ["js-2.51", "js-2.50", "py-2.51"];

/** The suites of clients that are repeated so. */
export const KUBE_CLIENT_SUITES: readonly string[] = ["base", "paging", "alias"];

/** Rows of the suite `kube` that the harness runs, each group with nodes and a cluster of its own. */
export function kubeSuiteRows(context: ControlContext): readonly HeldRows[] {
  return [
    ...KUBE_MINORS.map((minor) => kubectlRows(context, minor)),
    apiRows(context),
    authRows(context),
    informerRows(context),
    driverRows(context),
    lifeRows(context),
    e2bRows(context),
    { rows: chartRows(context.programs), close: () => Promise.resolve() },
  ];
}

/** The lanes of the suite; those of clients are for the ones that are ready. */
export function kubeLanes(
  context: RunContext,
  clients: readonly ClientId[],
  launchers: ReadonlyMap<ClientId, Launcher>,
  withHarness: boolean,
): readonly Lane[] {
  const { set, programs, args, collector, say } = context;
  const groups = withHarness ? kubeSuiteRows({ set, programs, isolation: args.isolation }) : [];
  const own = groups.map(({ rows, close }): Lane => ({
    name: "kube",
    run: async () => {
      try {
        const options = { suite: "kube", client: "harness", collector, onlyRow: args.row, onRow: say };
        await runHarnessRows(rows, { ...options, limitMs: LIMIT_MS });
      } finally {
        await close();
      }
    },
  }));
  const wanted = clients.filter((client) => KUBE_CLIENTS.includes(client));
  const ofClients: Lane = { name: "kube clients", run: () => runClients(context, wanted, launchers) };
  return wanted.length === 0 ? own : [...own, ofClients];
}

/**
 * Runs the suite `kube-real`.
 * @throws when no cluster is named: it takes one that exists for tests
 */
export async function runKubeReal({ set, programs, args, collector, say }: RunContext): Promise<void> {
  if ((process.env[REAL_CONFIG] ?? "") === "") {
    throw new Error(
      `--suite kube-real needs a kube-apiserver: set ${REAL_CONFIG} to a kubeconfig of somebody who may everything on one ` +
        "that exists for tests and reaches this machine as localhost (README, Kubernetes)",
    );
  }
  const { rows, close } = realRows({ set, programs, isolation: args.isolation });
  try {
    const options = { suite: "kube-real", client: "harness", collector, onlyRow: args.row, onRow: say };
    await runHarnessRows(rows, { ...options, limitMs: LIMIT_MS });
  } finally {
    await close();
  }
}

async function runClients(
  { set, programs, args, collector, say }: RunContext,
  clients: readonly ClientId[],
  launchers: ReadonlyMap<ClientId, Launcher>,
): Promise<void> {
  const options = { ...LANE_NODES, isolation: args.isolation };
  await using rig = await startKubeRig(set, programs, "kube-clients", options);
  const front = await rig.front();
  try {
    for (const client of clients) {
      for (const suite of KUBE_CLIENT_SUITES) {
        await runClientSuite({
          set,
          launcher: launchers.get(client) ?? { kind: "absent", reason: "no launcher" },
          client,
          suite,
          rig: front.facts,
          column: `${client} kube`,
          collector,
          onlyRow: args.row,
          onRow: say,
        });
      }
    }
  } finally {
    await front.stop();
  }
}
