import { type ClientId } from "./catalogue.ts";
import { runClientSuite, type Launcher } from "./clients.ts";
import { runHarnessRows } from "./harness-rows.ts";
import { KUBE_MINORS } from "./kube-tools.ts";
import type { Lane } from "./lanes.ts";
import type { RunContext } from "./run-context.ts";
import type { ControlContext, HeldRows } from "../suites/control/context.ts";
import { chartRows } from "../suites/kube/chart-rows.ts";
import { driverRows } from "../suites/kube/driver-rows.ts";
import { kubectlRows } from "../suites/kube/kubectl-rows.ts";

/** Rows that wait for leases and outages, on a machine that has more to do. */
const LIMIT_MS = 180_000;

/** Clients whose rows are repeated through a shim and a data plane beside it, in the column `<client> kube`. */
export const KUBE_CLIENTS: readonly ClientId[] = ["js-2.51", "js-2.50", "py-2.51"];

/** The suites of clients that are repeated. */
export const KUBE_CLIENT_SUITES: readonly string[] = ["base", "paging", "alias"];

/** The rows of the suite `kube`, in lanes with nodes and a cluster of their own. */
export function kubeSuiteLanes(context: ControlContext): readonly (HeldRows & { readonly name: string })[] {
  return [
    { name: "driver", ...driverRows(context) },
    { name: "chart", rows: chartRows(context.programs), close: async () => undefined },
    ...KUBE_MINORS.map((minor) => ({ name: `kubectl ${minor}`, ...kubectlRows(context, minor) })),
  ];
}
