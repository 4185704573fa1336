import { fileURLToPath } from "node:url";

import { type ClientId, type ClientRow, rowsFor } from "./catalogue.ts";
import { clientFacts, installedModuleVersion } from "./client-facts.ts";
import type { ProcessSet } from "./processes.ts";
import { cleanEnv } from "./programs.ts";
import { pythonEnv } from "./python-env.ts";
import { type ResultCollector, rowLine, type RowStatus } from "./results.ts";
import type { RigFacts } from "./rig.ts";

/** How a client process is started. */
export type Launcher =
  | {
      readonly kind: "ready";
      readonly command: string;
      readonly args: readonly string[];
      readonly module: string;
      readonly version: string;
    }
  | { readonly kind: "absent"; readonly reason: string };

/** Node asks the system for names below `localhost`, which not every system knows. */
const NAMES = `--import=${new URL("loopback-names.ts", import.meta.url).href}`;

/** The longest a client process may stay silent; rows have a limit of their own below it. */
const SILENCE_MS = 90_000;

/** Makes a client ready to run. */
export async function launcherFor(set: ProcessSet, client: ClientId): Promise<Launcher> {
  const { module, environment, version } = clientFacts(client);
  if (module !== undefined) {
    const runner = fileURLToPath(new URL("../suites/js-client.ts", import.meta.url));
    const installed = await installedModuleVersion(module);
    return { kind: "ready", command: process.execPath, args: [runner], module, version: installed };
  }
  const env = await pythonEnv(set, environment ?? version);
  if (env.kind === "absent") {
    return env;
  }
  const runner = fileURLToPath(new URL("../suites/python/client.py", import.meta.url));
  // The environment tells the version of the SDK, which is the client itself unless that has a package of its own.
  const told = client === "py-ci-2.11" ? version : env.version;
  return { kind: "ready", command: env.python, args: ["-B", runner], module: "e2b", version: told };
}

/** One line of a client process. */
interface RowLine {
  readonly row: string;
  readonly status: RowStatus;
  readonly detail: string;
  readonly ms: number;
}

/** Choices of {@link runClientSuite}. */
export interface ClientSuiteOptions {
  readonly set: ProcessSet;
  readonly launcher: Launcher;
  readonly client: ClientId;
  readonly suite: string;
  readonly rig: RigFacts;
  /** Column of the results. @default the client with its way to the data plane, or its kind of tokens */
  readonly column?: string;
  readonly collector: ResultCollector;
  /** Which rows of the suite. @default all */
  readonly only?: ((row: ClientRow) => boolean) | undefined;
  /** Only this row is reported; the rows before it still run, since it may build on them. */
  readonly onlyRow?: string | undefined;
  readonly onRow?: (line: string) => void;
}

/** Runs one suite in a client process and collects what it says. A row it does not report has failed. */
export async function runClientSuite(options: ClientSuiteOptions): Promise<void> {
  const { client, suite, rig, collector, launcher } = options;
  const rows = rowsFor(suite, client, rig.mode).filter(options.only ?? (() => true));
  const column = options.column ?? `${client} ${rig.transport ?? rig.mode}`;
  const report = (row: ClientRow, line: Omit<RowLine, "row">): void => {
    if (options.onlyRow !== undefined && options.onlyRow !== row.id) {
      return;
    }
    const judged = collector.add({ suite, client: column, row: row.id, title: row.title, ...line });
    options.onRow?.(rowLine(judged));
  };
  const last = options.onlyRow === undefined ? rows.length - 1 : rows.findIndex((row) => row.id === options.onlyRow);
  const asked = rows.slice(0, last + 1);
  if (asked.length === 0) {
    return;
  }
  if (launcher.kind === "absent") {
    for (const row of asked) {
      report(row, { status: "skip", detail: launcher.reason, ms: 0 });
    }
    return;
  }

  const missing = new Map(asked.map((row) => [row.id, row]));
  const silence = setTimeout(() => child.signal("SIGKILL", true), SILENCE_MS);
  const child = await options.set.start({
    name: `${column} ${suite}`,
    command: launcher.command,
    args: rig.trust === undefined || launcher.command !== process.execPath ? launcher.args : [NAMES, ...launcher.args],
    env: cleanEnv({
      NO_COLOR: "1",
      ...(rig.trust === undefined
        ? {}
        : { NODE_EXTRA_CA_CERTS: rig.trust.caFile, SSL_CERT_FILE: rig.trust.bundleFile }),
      CONFORMANCE_JOB: JSON.stringify({
        client,
        module: launcher.module,
        suite,
        rows: asked.map((row) => row.id),
        rig,
      }),
    }),
    onLine: (text) => {
      silence.refresh();
      const line = parseLine(text);
      const row = line === undefined ? undefined : missing.get(line.row);
      if (line !== undefined && row !== undefined) {
        missing.delete(row.id);
        report(row, { status: line.status, detail: line.detail, ms: line.ms });
      }
    },
  });
  const end = await child.ended;
  clearTimeout(silence);
  child.signal("SIGKILL", true);
  const why = `the client process said nothing of it (${end.code ?? end.signal}): ${child.stderr().trim().split("\n").at(-1) ?? ""}`;
  for (const row of missing.values()) {
    report(row, { status: "fail", detail: why.slice(0, 400), ms: 0 });
  }
}

/** Reads one line of a client; anything that is not a row is noise of the SDK. */
export function parseLine(text: string): RowLine | undefined {
  if (!text.startsWith("{")) {
    return undefined;
  }
  try {
    const value = JSON.parse(text) as Partial<RowLine>;
    const status = value.status;
    if (typeof value.row !== "string" || (status !== "pass" && status !== "fail" && status !== "skip")) {
      return undefined;
    }
    return { row: value.row, status, detail: value.detail ?? "", ms: value.ms ?? 0 };
  } catch {
    return undefined;
  }
}
