import type { TokenMode } from "./rig.ts";

/** A client that is run from a process of its own. */
export type ClientId = "js-2.51" | "js-2.50" | "py-2.51" | "py-2.51-async" | "py-newest" | InterpreterClient;

/** Clients of the code interpreter, which has packages of its own. */
export type InterpreterClient = "js-ci-2.8" | "py-ci-2.11";

/** One row that a client process runs. */
export interface ClientRow {
  readonly suite: string;
  readonly id: string;
  readonly title: string;
  /** Clients that can do it. @default all */
  readonly clients?: readonly ClientId[];
  /** Token modes in which the row means something. @default both */
  readonly modes?: readonly TokenMode[];
}

const PYTHON = ["py-2.51", "py-2.51-async", "py-newest"] as const;
const NEWEST = ["py-newest"] as const;
const SECRET = ["secret"] as const;

/** Clients of the suite `interpreter`, and of no other. */
export const INTERPRETER_CLIENTS: readonly InterpreterClient[] = ["js-ci-2.8", "py-ci-2.11"];

/**
 * Every row that client processes run, in running order. The runners know the rows by id; a row listed here that a
 * runner does not report counts as failed, so neither side can forget one.
 */
export const CLIENT_ROWS: readonly ClientRow[] = [
  { suite: "base", id: "B1", title: "create answers an id that fits a host name" },
  { suite: "base", id: "B2", title: "the claim is on lane none with a ref of the namespace" },
  { suite: "base", id: "B3", title: "commands.run echoes" },
  { suite: "base", id: "B4", title: "files.write then files.read" },
  { suite: "base", id: "B5", title: "getInfo at once" },
  { suite: "base", id: "B6", title: "list shows it running, at once and after a poll" },
  { suite: "base", id: "B7", title: "pause is true, then false" },
  { suite: "base", id: "B8", title: "isRunning is false while paused" },
  { suite: "base", id: "B9", title: "a fresh process connects, then isRunning is true" },
  { suite: "base", id: "B10", title: "commands and files work through the fresh handle" },
  { suite: "base", id: "B11", title: "another namespace sees and reaches nothing" },
  { suite: "base", id: "B12", title: "a wrong key is an authentication error" },
  { suite: "base", id: "B13", title: "network.denyOut is refused before any claim" },
  { suite: "base", id: "B14", title: "setTimeout sets the lease" },
  { suite: "base", id: "B15", title: "connect moves the lease out, never in" },
  { suite: "base", id: "B16", title: "kill is true, then the sandbox is unknown" },

  { suite: "paging", id: "P1", title: "pages of 2, 2 and 1, newest first, no repeats" },
  { suite: "paging", id: "P2", title: "ascending order is the reverse" },
  { suite: "paging", id: "P3", title: "a kill between pages neither repeats nor skips" },
  { suite: "paging", id: "P4", title: "bad limit, order and token are 400" },
  { suite: "paging", id: "P5", title: "the v1 list is unpaged" },
  { suite: "paging", id: "P6", title: "state filters" },
  { suite: "paging", id: "P7", title: "metadata filters match exactly" },
  { suite: "paging", id: "P8", title: "startedAfter filters" },

  { suite: "alias", id: "A1", title: "create without a template uses base and reports it" },
  { suite: "alias", id: "A2", title: "first alias in sort order is named; filters accept aliases and image" },
  { suite: "alias", id: "A3", title: "Template.exists for alias, image and unknown" },
  { suite: "alias", id: "A4", title: "alias look-up without a key is 401" },
  { suite: "alias", id: "A5", title: "the template list has the image with sorted aliases" },
  { suite: "alias", id: "A6", title: "an alias with a size claims that size; the image is small" },

  {
    suite: "resume",
    id: "R1",
    title: "legacy resume of a paused sandbox is 201 with a working token",
    clients: PYTHON,
  },
  { suite: "resume", id: "R2", title: "legacy resume of a running sandbox is 409", clients: PYTHON },
  { suite: "resume", id: "R3", title: "legacy resume of an unknown sandbox is 404", clients: PYTHON },
  { suite: "resume", id: "R4", title: "legacy resume without memory is 400 and wakes nothing", clients: PYTHON },
  { suite: "resume", id: "R5", title: "legacy resume never shortens the lease", clients: PYTHON },
  { suite: "resume", id: "R6", title: "autoPause on resume sets what happens at expiry", clients: PYTHON },

  { suite: "commands", id: "CM1", title: "stdout and exit code 0" },
  { suite: "commands", id: "CM2", title: "stderr is apart, callbacks get both" },
  { suite: "commands", id: "CM3", title: "a failing command throws with its exit code" },
  { suite: "commands", id: "CM4", title: "envs of one command do not leak to the next" },
  { suite: "commands", id: "CM5", title: "cwd, and a missing cwd is an error" },
  { suite: "commands", id: "CM6", title: "default user and user root" },
  { suite: "commands", id: "CM7", title: "a command over its timeout throws TimeoutError" },
  { suite: "commands", id: "CM8", title: "background command and wait" },
  { suite: "commands", id: "CM9", title: "stdin: send, send bytes, close" },
  { suite: "commands", id: "CM10", title: "kill ends a command; a second kill is false" },
  { suite: "commands", id: "CM11", title: "list shows running commands" },
  { suite: "commands", id: "CM12", title: "connect to a running command; unknown pid throws" },
  { suite: "commands", id: "CM13", title: "special characters and heredocs" },
  { suite: "commands", id: "CM14", title: "characters split over chunks arrive whole" },
  { suite: "commands", id: "CM15", title: "an argument of 100 KB" },
  { suite: "commands", id: "CM16", title: "8 MB of output arrive complete" },
  { suite: "commands", id: "CM17", title: "a command outlives its disconnected client" },
  { suite: "commands", id: "CM18", title: "20 commands at once in one sandbox" },

  { suite: "files", id: "FL1", title: "every format of read gives all 256 byte values" },
  { suite: "files", id: "FL2", title: "every kind of data can be written" },
  { suite: "files", id: "FL3", title: "empty files in every format" },
  { suite: "files", id: "FL4", title: "missing parents are made, files are replaced" },
  { suite: "files", id: "FL5", title: "several files in one call" },
  { suite: "files", id: "FL6", title: "list with depth 1 to 3, sorted" },
  { suite: "files", id: "FL7", title: "getInfo of file, directory and link" },
  { suite: "files", id: "FL8", title: "rename moves and overwrites" },
  { suite: "files", id: "FL9", title: "remove, also of what is missing" },
  { suite: "files", id: "FL10", title: "exists, and makeDir twice" },
  { suite: "files", id: "FL11", title: "what is missing is the client's not-found class" },
  { suite: "files", id: "FL12", title: "gzip both ways" },
  { suite: "files", id: "FL13", title: "metadata of files" },
  { suite: "files", id: "FL14", title: "relative and home paths, user root" },
  { suite: "files", id: "FL15", title: "signed download and upload addresses", modes: SECRET },
  { suite: "files", id: "FL16", title: "bad and expired signatures are 401", modes: SECRET },
  { suite: "files", id: "FL17", title: "32 MB up and down, same digest" },
  { suite: "files", id: "FL18", title: "parallel writes into one new folder" },
  { suite: "files", id: "FL19", title: "watch: create, write, rename, remove; recursive" },

  { suite: "pty", id: "PT1", title: "create, input, output, exit" },
  { suite: "pty", id: "PT2", title: "resize" },
  { suite: "pty", id: "PT3", title: "kill is true, then false" },
  { suite: "pty", id: "PT4", title: "disconnect and reconnect" },

  { suite: "surface", id: "S1", title: "envs at create" },
  { suite: "surface", id: "S2", title: "metrics: a sample now, none for an old window" },
  { suite: "surface", id: "S3", title: "snapshot: create, list, start from it, delete" },
  { suite: "surface", id: "S4", title: "fork gives working children" },
  { suite: "surface", id: "S5", title: "kill during a command" },
  { suite: "surface", id: "S6", title: "a killed sandbox is not running and not found" },
  { suite: "surface", id: "S7", title: "onTimeout pause: paused at expiry, also after a reconnect", modes: SECRET },
  { suite: "surface", id: "S8", title: "a paused sandbox wakes on its first command" },
  { suite: "surface", id: "S9", title: "options that cannot be honoured are 400 before any claim" },
  { suite: "surface", id: "S10", title: "network rules of a running sandbox are refused with 400" },
  { suite: "surface", id: "S11", title: "detail is the same while paused" },
  { suite: "surface", id: "S12", title: "killed at the end of its lease", modes: SECRET },
  { suite: "surface", id: "S14", title: "forked children have tokens, variables and files of their own" },
  { suite: "surface", id: "S15", title: "snapshots: unnamed, by name, in pages, of one namespace" },
  { suite: "surface", id: "S16", title: "built templates: found, tagged, started by name and tag, deleted" },
  { suite: "surface", id: "S13", title: "streamed input", clients: NEWEST },

  { suite: "admission", id: "AD1", title: "a create over max_sandboxes is 429; the SDK waits and succeeds" },
  { suite: "admission", id: "AD2", title: "a create over create_per_minute is 429 with the time to wait" },
  { suite: "admission", id: "AD3", title: "creates with one Idempotency-Key are one sandbox" },
  {
    suite: "admission",
    id: "AD4",
    title: "a hundred requests at once, and a hundred connects, wake a paused sandbox once",
    clients: ["js-2.51"],
  },

  { suite: "traffic", id: "X1", title: "20 sandboxes in parallel" },
  { suite: "traffic", id: "X2", title: "a user port is public, by headers and by host" },
  { suite: "traffic", id: "X3", title: "a closed port is a JSON 502; port 49983 needs a token" },
  { suite: "traffic", id: "X4", title: "a client that hangs up during create leaves no sandbox" },

  {
    suite: "builds",
    id: "T1",
    title: "a template with RUN, ENV, WORKDIR, USER, COPY and a start command is built, and its log read",
    modes: SECRET,
  },
  {
    suite: "builds",
    id: "T2",
    title: "a sandbox of it has files, owner, user, folder, variables and the running program",
    modes: SECRET,
  },
  { suite: "builds", id: "T3", title: "envs at create come on top of the template's", modes: SECRET },
  { suite: "builds", id: "T4", title: "tags: built with, listed, assigned, used, removed", modes: SECRET },
  { suite: "builds", id: "T5", title: "files that are there are not uploaded again", modes: SECRET },
  { suite: "builds", id: "T6", title: "a failing step is the client's build error at its line", modes: SECRET },
  { suite: "builds", id: "T7", title: "no base, no upload, no start: build errors that say so", modes: SECRET },
  { suite: "builds", id: "T8", title: "building again replaces the template on every node", modes: SECRET },
  { suite: "builds", id: "T9", title: "COPY follows the rules of a Dockerfile", modes: SECRET },
  { suite: "builds", id: "T10", title: "in the background, with status and log by offset", modes: SECRET },
  {
    suite: "builds",
    id: "T11",
    title: "the asynchronous client builds",
    clients: ["py-2.51", "py-newest"],
    modes: SECRET,
  },
  {
    suite: "builds",
    id: "T12",
    title: "no other namespace sees it; a deleted one is gone; no build left a sandbox",
    modes: SECRET,
  },

  ...interpreterRows(),

  ...dataRows(),

  { suite: "default-create", id: "B17", title: "default create on a fleet without network lane", modes: SECRET },
];

/** What the clients of the code interpreter do beside what every client does. */
function interpreterRows(): readonly ClientRow[] {
  const own = { suite: "interpreter", clients: INTERPRETER_CLIENTS } as const;
  return [
    { ...own, id: "CI1", title: "create without a template gives a sandbox that runs code" },
    { ...own, id: "CI2", title: "cells share what they define; the last value is the result" },
    { ...own, id: "CI3", title: "stdout, stderr and results are apart, and come while the cell runs" },
    { ...own, id: "CI4", title: "an error has name, value and traceback, and ends nothing but its cell" },
    { ...own, id: "CI5", title: "a value comes in every form it has" },
    { ...own, id: "CI6", title: "cells are counted" },
    { ...own, id: "CI7", title: "JavaScript and TypeScript: state, await, import, console, errors, display" },
    { ...own, id: "CI8", title: "contexts: create in a directory, list, restart, remove" },
    { ...own, id: "CI9", title: "variables of the sandbox and of one cell", modes: SECRET },
    { ...own, id: "CI10", title: "a cell over its timeout is interrupted and its context goes on" },
    { ...own, id: "CI11", title: "languages that are not offered are refused by name" },
    { ...own, id: "CI12", title: "code without the sandbox's token is 401", modes: SECRET },
    { ...own, id: "CI13", title: "a sandbox killed during a cell is a timeout error" },
    { ...own, id: "CI14", title: "contexts live through a pause" },
    { ...own, id: "CI15", title: "a megabyte of any characters arrives whole" },
    { ...own, id: "CI16", title: "a kernel that dies says so, and the next cell has a new one" },
    { ...own, id: "CI17", title: "cells of one context wait for each other, contexts do not" },
  ];
}

/** What users rely on in a sandbox, beside the rows of other suites that {@link DATA_PARTS} names. */
function dataRows(): readonly ClientRow[] {
  const own = { suite: "data", modes: SECRET } as const;
  return [
    { ...own, id: "D1", title: "a background command that runs out of time is a timeout error, with what came before" },
    { ...own, id: "D2", title: "variables of the sandbox and of a command reach Python, and not the next command" },
    { ...own, id: "D3", title: "stdin: several lines, special characters, by handle; late input is refused" },
    { ...own, id: "D4", title: "a terminal of 80 columns becomes one of 100" },
    { ...own, id: "D5", title: "a list is sorted by byte, links have absolute targets and are not followed" },
    { ...own, id: "D6", title: "attributes set in the guest are metadata, and move with the file" },
    { ...own, id: "D7", title: "metadata by every way of writing; too much of it is refused and changes nothing" },
    { ...own, id: "D8", title: "watching one folder: exactly the events of a new file, nothing from below" },
    { ...own, id: "D9", title: "watching recursively: new folders, modes, moves, removals" },
    { ...own, id: "D10", title: "watching with entries, and with network mounts allowed" },
    { ...own, id: "D11", title: "watching a file or nothing is an error; a watch ends in time" },
    { ...own, id: "D12", title: "addresses of the sandbox, and signed ones used as they are" },
    { ...own, id: "D13", title: "a web server at its own address without a token; JSON 502 once killed" },
    { ...own, id: "D14", title: "secure: a fresh handle works, no token and a wrong one are 401" },
    { ...own, id: "D15", title: "HTTP/2 and HTTP/1.1 are offered, TLS 1.2 or newer", clients: ["js-2.51", "js-2.50"] },
    { ...own, id: "D16", title: "git: init, clone, status, commit, push, branches" },
    { ...own, id: "D17", title: "a hundred cancelled streams disturb no other" },
    { ...own, id: "D18", title: "a killed sandbox ends command, terminal and watch with what happened" },
    { ...own, id: "D19", title: "sixty commands at once through one client" },
    { ...own, id: "D20", title: "plain JSON errors are the client's classes", clients: PYTHON },
    { ...own, id: "D21", title: "broken characters at the end of a block lose nothing around them", clients: PYTHON },
    {
      ...own,
      id: "D22",
      title: "5 MB pasted into a stopped shell hold up neither resize nor kill; a reader gets them whole",
    },
    { ...own, id: "D23", title: "what the daemon's version switches on in the client works" },
  ];
}

/** Rows of other suites that the suite `data` repeats over both ways to the data plane. */
export const DATA_PARTS: Readonly<Record<string, readonly string[] | "all">> = {
  commands: "all",
  files: "all",
  pty: "all",
  surface: ["S1", "S5", "S6", "S8"],
  traffic: ["X2", "X3"],
  data: "all",
};

/** What `quick` runs of the suite `data`: the names of sandboxes, signed addresses, user ports and tokens, over TLS. */
export const QUICK_DATA: readonly string[] = ["D12", "D13", "D14", "D15"];

/** The rows of a suite that a client can run in a mode. */
export function rowsFor(suite: string, client: ClientId, mode: TokenMode): readonly ClientRow[] {
  return CLIENT_ROWS.filter(
    (row) => row.suite === suite && (row.clients ?? [client]).includes(client) && (row.modes ?? [mode]).includes(mode),
  );
}

/** Suites of client rows that run on the shared rig, in running order. */
export const SHARED_SUITES = [
  "base",
  "paging",
  "alias",
  "resume",
  "commands",
  "files",
  "pty",
  "surface",
  "admission",
  "traffic",
  "builds",
] as const;
