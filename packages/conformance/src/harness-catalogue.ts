import { CLIENT_ROWS, type ClientId, DATA_PARTS, rowsFor } from "./catalogue.ts";
import { CLIENTS } from "./client-facts.ts";
import { CONTROL_SUITES } from "./control-run.ts";
import type { HarnessRow } from "./harness-rows.ts";
import { KUBE_CLIENT_SUITES, KUBE_CLIENTS, kubeSuiteRows } from "./kube-run.ts";
import type { TokenMode, Transport } from "./rig.ts";
import { CLI_CLIENT, cliRows } from "../suites/cli.ts";
import { cliBuildRows } from "../suites/cli-builds.ts";
import { capacityRows, failureRows, startupRows } from "../suites/failures.ts";
import { consoleRows } from "../suites/console.ts";
import { faultLanes } from "../suites/faults.ts";
import { firstScriptRows } from "../suites/first-script.ts";
import { fuzzRows } from "../suites/fuzz.ts";
import { type HostileLane, hostileLanes } from "../suites/hostile.ts";
import { ISOLATIONS, isolationRows } from "../suites/isolation.ts";
import { longRows } from "../suites/long.ts";
import { meshRows } from "../suites/mesh.ts";
import { nodeRows } from "../suites/node.ts";
import { runnerRows } from "../suites/protocols/runner-rows.ts";
import { teardownRows } from "../suites/teardown.ts";

/** A row of any suite, with the columns of results that a full run has for it. */
export interface ListedRow {
  readonly suite: string;
  readonly id: string;
  readonly title: string;
  /** Such as `js-2.51 secret`, or `harness`. */
  readonly columns: readonly string[];
}

const MODES: readonly TokenMode[] = ["secret", "seed"];
const TRANSPORTS: readonly Transport[] = ["by-url", "by-host"];

/**
 * Stands in for what rows are made of where they are only listed. Reading it gives more of the same, so whatever a
 * suite looks up while it makes its rows is there; no row of it may run.
 */
function standIn(): never {
  const nothing: unknown = new Proxy(() => undefined, {
    get: (_target, name) => {
      if (name === Symbol.iterator) {
        return [][Symbol.iterator];
      }
      return name === Symbol.toPrimitive ? () => "" : name === "then" ? undefined : nothing;
    },
    apply: () => nothing,
  });
  return nothing as never;
}

function listed(suite: string, columns: readonly string[], rows: readonly HarnessRow[]): ListedRow[] {
  return rows.map(({ id, title }) => ({ suite, id, title, columns }));
}

/** Rows that the harness runs without a client, and those of the CLI. */
function harnessRows(): readonly ListedRow[] {
  const own = ["harness"];
  const raw = MODES.map((mode) => `raw ${mode}`);
  return [
    ...listed("cli", [`${CLI_CLIENT} secret`, `${CLI_CLIENT} seed`], cliRows(standIn(), standIn()).rows),
    ...listed("builds", [`${CLI_CLIENT} secret`], cliBuildRows(standIn(), standIn()).rows),
    ...listed("failures", raw, failureRows(standIn(), 0)),
    ...listed("capacity", ["raw secret"], capacityRows(standIn())),
    ...listed("startup", own, startupRows(standIn())),
    ...listed("first-script", own, firstScriptRows(standIn(), standIn()).rows),
    ...listed("console", own, consoleRows(standIn(), standIn()).rows),
    ...listed("mesh", own, meshRows(standIn(), standIn(), undefined).rows),
    ...listed("teardown", own, teardownRows(standIn(), standIn(), undefined)),
    ...ISOLATIONS.flatMap((isolation) => listed("isolation", own, isolationRows(standIn(), standIn(), isolation).rows)),
    ...listed("node", ["node"], nodeRows(standIn())),
    ...listed("protocols", own, runnerRows(standIn()).rows),
    ...listed("faults", own, faultLanes(standIn()).flat()),
    ...listed(
      "hostile",
      own,
      Object.values(hostileLanes({ set: standIn(), programs: standIn(), isolation: undefined, brief: false }))
        .flat()
        .flatMap(({ rows }: HostileLane) => rows),
    ),
    ...listed("fuzz", own, fuzzRows(standIn())),
    ...listed(
      "kube",
      own,
      kubeSuiteRows(standIn()).flatMap(({ rows }) => rows),
    ),
    ...listed("long", own, longRows(standIn())),
    ...Object.entries(CONTROL_SUITES).flatMap(([suite, lanesOf]) =>
      listed(
        suite,
        own,
        lanesOf(standIn()).flatMap(({ rows }) => rows),
      ),
    ),
  ];
}

/** Every row of every suite. */
export function listedRows(): readonly ListedRow[] {
  const ids = CLIENTS.map((client) => client.id).filter((id): id is ClientId => id !== CLI_CLIENT);
  const ofClients = CLIENT_ROWS.map(({ suite, id, title }) => ({
    suite,
    id,
    title,
    columns: ids.flatMap((client) => {
      const has = (mode: TokenMode): boolean =>
        runs(suite, client) && rowsFor(suite, client, mode).some((row) => row.id === id);
      const modes = suite === "data" ? [] : MODES.filter(has);
      const ways = isDataRow(suite, id) && has("secret") ? TRANSPORTS : [];
      const kube = KUBE_CLIENT_SUITES.includes(suite) && KUBE_CLIENTS.includes(client) && has("secret") ? ["kube"] : [];
      return [...modes, ...ways, ...kube].map((way) => `${client} ${way}`);
    }),
  }));
  return [...ofClients, ...harnessRows()];
}

function isDataRow(suite: string, id: string): boolean {
  const part = DATA_PARTS[suite];
  return part === "all" || part?.includes(id) === true;
}

/** The clients of the code interpreter run their own suite, and no other client does. */
function runs(suite: string, client: ClientId): boolean {
  return client.includes("-ci-") === (suite === "interpreter");
}
