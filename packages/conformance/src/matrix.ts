import { CLIENTS, type ClientFacts } from "./client-facts.ts";
import type { ListedRow } from "./harness-catalogue.ts";
import type { KnownLimits } from "./known-limits.ts";
import { type Outcome, outcomesOf, type ResultsFile } from "./results-file.ts";

/** What the pages of a matrix are made of. */
export interface MatrixSource {
  readonly results: ResultsFile;
  readonly listed: readonly ListedRow[];
  readonly limits: KnownLimits;
}

/** Head of the column of rows that no client runs. */
const NO_CLIENT = "without a client";

/** What is checked by a suite, for its heading. A suite without an entry is shown by its name alone. */
const ABOUT: Readonly<Record<string, string>> = {
  base: "create, commands, files, pause, connect, leases, kill, namespaces",
  paging: "lists: pages, order, filters",
  alias: "templates by alias and image",
  resume: "the older resume route",
  commands: "`commands`",
  files: "`files`",
  pty: "terminals",
  surface: "metrics, snapshots, forks, refusals, ends of life",
  admission: "limits of keys, creates that are sent twice",
  traffic: "many sandboxes, user ports, clients that hang up",
  builds: "template builds",
  interpreter: "the code interpreter",
  "default-create": "create without options",
  cli: "the CLI",
  options: "every option on the wire",
  failures: "errors of both surfaces",
  capacity: "a full fleet",
  startup: "starts that must fail",
  "first-script": "a newcomer's first minute",
  mesh: "two nodes, redirects, a node that goes",
  teardown: "ends of programs",
  isolation: "how guests are kept apart",
  node: "the API of nodes",
  faults: "nodes and processes that fail",
  hostile: "clients, guests and nodes that mean harm",
  fuzz: "generated requests",
  long: "what takes six minutes",
  data: "the data plane",
  kube: "Kubernetes: kubectl, the aggregated API, the watch of nodes, warm pools, both surfaces over one cluster",
  "build-faults": "builds that break in every way",
  replicas: "several fronts",
  lanes: "the control plane over plain HTTP",
  reports: "faults that users reported",
};

interface Cell {
  readonly text: "ok" | "known limit" | "skipped" | "not run" | "–";
  readonly details: readonly string[];
}

/** Where a column of results belongs: to a client, or to none. */
function clientOf(column: string): string {
  const [id = ""] = column.split(" ");
  return CLIENTS.some((client) => client.id === id) ? id : NO_CLIENT;
}

/** A row with one client: it is ok when it is in every column that is the client's, whatever the tokens. */
function cellOf(row: ListedRow, client: string, { results }: MatrixSource): Cell {
  const columns = row.columns.filter((column) => clientOf(column) === client);
  if (columns.length === 0) {
    return { text: "–", details: [] };
  }
  const outcomes = columns.map((column): Outcome | undefined =>
    outcomesOf(results.suites[row.suite]?.[column]).get(row.id),
  );
  const details = outcomes.map((outcome) => outcome?.detail ?? "").filter((detail) => detail !== "");
  if (outcomes.some((outcome) => outcome === undefined || outcome.status === "failed")) {
    return { text: "not run", details };
  }
  const has = (status: Outcome["status"]): boolean => outcomes.some((outcome) => outcome?.status === status);
  return { text: has("skipped") ? "skipped" : has("limit") ? "known limit" : "ok", details };
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)];
}

/** A title as a cell: a bar would end it. */
function cellText(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("\n", " ");
}

function titleOf(client: string): string {
  return CLIENTS.find(({ id }) => id === client)?.title ?? client;
}

/** The clients and their versions. */
export function clientTable({ results }: MatrixSource): string {
  const version = ({ id, version: wanted }: ClientFacts): string =>
    `${results.clients[id] ?? "not run"}${wanted === "newest" ? ", the newest" : ""}`;
  const when = ({ quick }: ClientFacts): string => (quick ? "`quick` and `full`" : "`full`");
  return table(
    ["column", "client", "version", "runs in"],
    CLIENTS.map((client) => [client.title, client.published, version(client), when(client)]),
  ).join("\n");
}

/** How many rows of each suite are ok, by client. */
export function suiteTable(source: MatrixSource): string {
  const clients = [...CLIENTS.map(({ id }): string => id), NO_CLIENT];
  const suites = [...new Set(source.listed.map((row) => row.suite))];
  const rows = suites.map((suite) => [
    `[${suite}](#${suite})`,
    ...clients.map((client) => {
      const cells = source.listed
        .filter((row) => row.suite === suite)
        .map((row) => cellOf(row, client, source).text)
        .filter((text) => text !== "–");
      const others = [...new Set(cells)].filter((text) => text !== "ok");
      const count = (wanted: string): number => cells.filter((text) => text === wanted).length;
      const parts = ["ok", ...others].filter((text) => count(text) > 0).map((text) => `${count(text)} ${text}`);
      return parts.length === 0 ? "–" : parts.join(", ");
    }),
  ]);
  return table(["suite", ...clients.map(titleOf)], rows).join("\n");
}

/** One table for each suite, with what its limits and skips are about. */
export function rowTables(source: MatrixSource): string {
  const suites = [...new Set(source.listed.map((row) => row.suite))];
  return suites.map((suite) => suiteRows(suite, source).join("\n")).join("\n\n");
}

function suiteRows(suite: string, source: MatrixSource): string[] {
  const listed = source.listed.filter((row) => row.suite === suite);
  const used = new Set(listed.flatMap((row) => row.columns.map(clientOf)));
  const clients = [...CLIENTS.map(({ id }): string => id), NO_CLIENT].filter((client) => used.has(client));
  const notes: string[] = [];
  const { product, newestPython } = source.limits;
  const rows = listed.map((row) => {
    const cells = clients.map((client) => cellOf(row, client, source));
    if (cells.some(({ text }) => text === "known limit")) {
      const limit = [...product, ...newestPython.rows].find((one) => one.suite === suite && one.row === row.id);
      notes.push(`- ${row.id}, known limit: ${limit?.reason ?? "not listed"}`);
    }
    for (const reason of new Set(cells.filter(({ text }) => text === "skipped").flatMap(({ details }) => details))) {
      notes.push(`- ${row.id}, skipped: ${reason}`);
    }
    return [row.id, cellText(row.title), ...cells.map(({ text }) => text)];
  });
  const about = ABOUT[suite];
  return [
    `### ${suite}`,
    "",
    ...(about === undefined ? [] : [`${about[0]?.toUpperCase() ?? ""}${about.slice(1)}.`, ""]),
    ...table(["row", "what", ...clients.map(titleOf)], rows),
    ...(notes.length === 0 ? [] : ["", ...notes]),
  ];
}
