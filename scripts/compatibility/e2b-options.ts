import type { Reply } from "../../packages/e2bcompat/src/testing/fleet.ts";
import { EXAMPLES } from "./e2b-endpoints.ts";
import { type AskedFleet, BUILT } from "./fleet.ts";

/** What becomes of an option: it does what E2B says, it is taken and changes nothing, or it is an error. */
export type OptionState = "honoured" | "accepted" | "refused";

/** One option with one value, or one kind of values. */
export interface OptionCase {
  /** Field of the body, query parameter or header. */
  readonly field: string;
  /** How clients call it. */
  readonly option: string;
  /** Sent to the service, which must do what the state says. */
  readonly value: unknown;
  /** How the value is shown, where others do the same. */
  readonly shown?: string;
  readonly state: OptionState;
  /** What it does here; for a refusal the service's own words are shown. */
  readonly means?: string;
  /** Rows of the conformance suites that see it done, as `suite row`. */
  readonly rows?: readonly string[];
}

/** Options of one kind of request. */
export interface OptionGroup {
  readonly title: string;
  /** `operationId` of every operation that has exactly these options. */
  readonly operations: readonly string[];
  readonly cases: readonly OptionCase[];
  /** Sends a request that has the option. */
  readonly send: (fleet: AskedFleet, field: string, value: unknown) => Promise<Reply>;
}

const query = (field: string, value: unknown): string => `?${field}=${encodeURIComponent(String(value))}`;

/** A request about a sandbox of its own, whose options are fields of the body. */
const onSandbox =
  (verb: string, needed: object = {}, first?: string): OptionGroup["send"] =>
  async (fleet, field, value) => {
    const id = await fleet.create();
    if (first !== undefined) {
      await fleet.send("POST", `/sandboxes/${id}/${first}`, {});
    }
    return fleet.send("POST", `/sandboxes/${id}/${verb}`, { ...needed, [field]: value });
  };

/** A request for a page about a sandbox of its own, whose options are in the query. */
const aboutSandbox =
  (path: string): OptionGroup["send"] =>
  async (fleet, field, value) =>
    fleet.send("GET", `${path.replace("{sandboxID}", await fleet.create())}${query(field, value)}`);

const onPath =
  (path: string): OptionGroup["send"] =>
  (fleet, field, value) =>
    fleet.send("GET", `${path}${query(field, value)}`);

const WAKE_TIMEOUT: OptionCase = {
  field: "timeout",
  option: "`timeoutMs`",
  value: 600,
  state: "honoured",
  means: "the lease lasts that long from now; it is never shortened",
  rows: ["base B15", "resume R5"],
};
const WITH_MEMORY: OptionCase = {
  field: "memory",
  option: "`onResume`",
  value: true,
  state: "accepted",
  means: "as ever",
};
const WITHOUT_MEMORY: OptionCase = { field: "memory", option: '`onResume: "reboot"`', value: false, state: "refused" };

const FILTERS: readonly OptionCase[] = [
  {
    field: "state",
    option: "`query.state`",
    value: "running,paused",
    state: "honoured",
    means: "a list, repeated or with commas",
    rows: ["paging P6"],
  },
  { field: "state", option: "`query.state`", value: "sleeping", shown: "anything else", state: "refused" },
  {
    field: "metadata",
    option: "`query.metadata`",
    value: "a=1",
    state: "honoured",
    means: "every pair must match exactly",
    rows: ["paging P7"],
  },
  {
    field: "template",
    option: "`query.template`",
    value: "base",
    state: "honoured",
    means: "an alias, a pool image or a built template",
    rows: ["alias A2"],
  },
  {
    field: "startedAfter",
    option: "`query.startedAfter`",
    value: "2030-01-01T00:00:00Z",
    state: "honoured",
    means: "inclusive, to the second",
    rows: ["paging P8"],
  },
];

/** Every option of every request that has some. */
export const E2B_OPTIONS: readonly OptionGroup[] = [
  {
    title: "Create",
    operations: ["createSandbox", "createSandboxV2"],
    send: async (fleet, field, value) => {
      const body = { templateID: "base", ...(field === "Idempotency-Key" ? {} : { [field]: value }) };
      const headers = field === "Idempotency-Key" ? { [field]: String(value) } : {};
      const older = await fleet.send("POST", "/sandboxes", body, { headers });
      const newer = await fleet.send("POST", "/v2/sandboxes", body, { headers });
      return newer.status === older.status ? newer : { ...newer, status: 0, text: "the two routes differ" };
    },
    cases: [
      {
        field: "templateID",
        option: "template",
        value: "base",
        shown: "an alias, an image, a built template with or without a tag, a snapshot's id",
        state: "honoured",
        means: "`base` when a client names none",
        rows: ["alias A1", "alias A6", "surface S3", "surface S16"],
      },
      { field: "templateID", option: "template", value: "nowhere", shown: "unknown", state: "refused" },
      {
        field: "timeout",
        option: "`timeoutMs`, `timeout`",
        value: 60,
        state: "honoured",
        means: "the lease; absent is `--e2b-default-timeout`, 0 the node's own",
        rows: ["base B5", "surface S12"],
      },
      { field: "timeout", option: "`timeoutMs`, `timeout`", value: -1, shown: "negative", state: "refused" },
      {
        field: "metadata",
        option: "`metadata`",
        value: { owner: "me" },
        state: "honoured",
        means: "kept on the node; at most 16 pairs and 4 KiB",
        rows: ["paging P7", "surface S11"],
      },
      {
        field: "envVars",
        option: "`envs`",
        value: { A: "1" },
        state: "honoured",
        means: "with `--e2b-envd-secret-file`",
        rows: ["surface S1", "builds T3"],
      },
      { field: "secure", option: "`secure`", value: true, state: "accepted", means: "every sandbox is" },
      { field: "secure", option: "`secure`", value: false, state: "refused" },
      {
        field: "allow_internet_access",
        option: "`allowInternetAccess`",
        value: true,
        state: "honoured",
        means: "the `egress` lane; 503 on a fleet without one. The 2.50 SDKs send it by default",
        rows: ["default-create B17"],
      },
      {
        field: "allow_internet_access",
        option: "`allowInternetAccess`",
        value: false,
        shown: "`false` or absent",
        state: "honoured",
        means: "the lane without network. The 2.51 SDKs send nothing",
        rows: ["base B2"],
      },
      {
        field: "autoPause",
        option: '`lifecycle.onTimeout: "pause"`',
        value: true,
        state: "honoured",
        means: "paused at the end of its lease, not together with internet access",
        rows: ["surface S7"],
      },
      {
        field: "autoPause",
        option: '`lifecycle.onTimeout: "kill"`',
        value: false,
        state: "honoured",
        means: "ended at the end of its lease",
        rows: ["surface S12"],
      },
      {
        field: "autoPauseMemory",
        option: "`lifecycle.onTimeout.keepMemory`",
        value: false,
        shown: "any",
        state: "refused",
      },
      {
        field: "autoResume",
        option: "`lifecycle.autoResume`",
        value: { enabled: true },
        state: "honoured",
        means: "a request to a paused sandbox wakes it",
        rows: ["surface S8"],
      },
      {
        field: "autoResume",
        option: "`lifecycle.autoResume`",
        value: { enabled: false },
        state: "accepted",
        means: "a request wakes it all the same",
      },
      {
        field: "network",
        option: "`network`",
        value: {},
        shown: "empty",
        state: "accepted",
        means: "it asks for nothing",
      },
      {
        field: "network",
        option: "`network`",
        value: { denyOut: ["10.0.0.0/8"] },
        shown: "any rule",
        state: "refused",
      },
      {
        field: "volumeMounts",
        option: "`volumeMounts`",
        value: [{ name: "v", path: "/v" }],
        shown: "any",
        state: "refused",
      },
      { field: "mcp", option: "`mcp`", value: { exa: {} }, shown: "any", state: "refused" },
      { field: "iam", option: "`iam.tokens`", value: { tokens: {} }, shown: "any", state: "refused" },
      {
        field: "Idempotency-Key",
        option: "`idempotencyKey`",
        value: "once",
        state: "honoured",
        means: "a repeated create is answered with the first one's sandbox",
        rows: ["admission AD3"],
      },
    ],
  },
  {
    title: "Connect",
    operations: ["connectSandbox", "connectSandboxV2"],
    send: onSandbox("connect"),
    cases: [WAKE_TIMEOUT, WITH_MEMORY, WITHOUT_MEMORY],
  },
  {
    title: "Resume",
    operations: ["resumeSandbox"],
    send: onSandbox("resume", {}, "pause"),
    cases: [
      { ...WAKE_TIMEOUT, rows: ["resume R1", "resume R5"] },
      WITH_MEMORY,
      { ...WITHOUT_MEMORY, option: "`memory`" },
      {
        field: "autoPause",
        option: "`auto_pause`",
        value: true,
        shown: "any",
        state: "honoured",
        means: "whether the end of the lease pauses it from now on",
        rows: ["resume R6"],
      },
    ],
  },
  {
    title: "Pause",
    operations: ["pauseSandbox"],
    send: onSandbox("pause"),
    cases: [
      { field: "memory", option: "`keepMemory`", value: true, state: "honoured", means: "as ever", rows: ["base B7"] },
      { field: "memory", option: "`keepMemory`", value: false, state: "refused" },
    ],
  },
  {
    title: "Set the timeout",
    operations: ["setSandboxTimeout"],
    send: onSandbox("timeout"),
    cases: [
      {
        field: "timeout",
        option: "`timeoutMs`",
        value: 60,
        state: "honoured",
        means: "the lease ends that long from now, also earlier than before",
        rows: ["base B14"],
      },
      { field: "timeout", option: "`timeoutMs`", value: -1, shown: "negative", state: "refused" },
    ],
  },
  {
    title: "Refresh",
    operations: ["refreshSandbox"],
    send: onSandbox("refreshes"),
    cases: [
      {
        field: "duration",
        option: "`duration`",
        value: 60,
        state: "honoured",
        means: "0 and absent are `--e2b-default-timeout`",
        rows: ["faults F20"],
      },
    ],
  },
  {
    title: "Fork",
    operations: ["forkSandbox"],
    send: onSandbox("fork"),
    cases: [
      {
        field: "count",
        option: "`count`",
        value: 2,
        state: "honoured",
        means: "all or none",
        rows: ["surface S4", "surface S14"],
      },
      { field: "count", option: "`count`", value: 0, shown: "0 or negative", state: "refused" },
      {
        field: "timeout",
        option: "`timeoutMs`",
        value: 60,
        state: "honoured",
        means: "of each child",
        rows: ["surface S4"],
      },
    ],
  },
  {
    title: "Snapshot",
    operations: ["createSnapshot"],
    send: onSandbox("snapshots"),
    cases: [
      {
        field: "name",
        option: "`name`",
        value: "mine",
        state: "honoured",
        means: "need not be unique",
        rows: ["surface S15"],
      },
      { field: "name", option: "`name`", value: "n".repeat(64), shown: "too long", state: "refused" },
    ],
  },
  {
    title: "List sandboxes",
    operations: ["listSandboxPage"],
    send: onPath("/v2/sandboxes"),
    cases: [
      ...FILTERS,
      {
        field: "limit",
        option: "`limit`",
        value: 100,
        shown: "1 to 100",
        state: "honoured",
        means: "absent is 100",
        rows: ["paging P1"],
      },
      { field: "limit", option: "`limit`", value: 101, shown: "anything else", state: "refused" },
      {
        field: "order",
        option: "`order`",
        value: "asc",
        shown: "`asc`, `desc`",
        state: "honoured",
        means: "by start; absent is `desc`",
        rows: ["paging P2"],
      },
      { field: "order", option: "`order`", value: "sideways", shown: "anything else", state: "refused" },
      {
        field: "nextToken",
        option: "`nextToken`",
        value: "",
        shown: "of a page before",
        state: "honoured",
        means: "in the header `X-Next-Token`",
        rows: ["paging P1", "paging P3"],
      },
      { field: "nextToken", option: "`nextToken`", value: "not-a-token", shown: "anything else", state: "refused" },
    ],
  },
  {
    title: "List all sandboxes",
    operations: ["listSandboxes"],
    send: onPath("/sandboxes"),
    cases: FILTERS.map((one) => ({ ...one, option: "–" })),
  },
  {
    title: "Metrics",
    operations: ["getSandboxMetrics"],
    send: aboutSandbox("/sandboxes/{sandboxID}/metrics"),
    cases: ["start", "end"].map((field) => ({
      field,
      option: `\`${field}\``,
      value: field === "start" ? 1 : 4_000_000_000,
      shown: "seconds since 1970",
      state: "honoured" as const,
      means: "the one sample is of now: none when that lies outside",
      rows: ["surface S2"],
    })),
  },
  {
    title: "Metrics of many",
    operations: ["getMetricsOfMany"],
    send: onPath("/sandboxes/metrics"),
    cases: [
      {
        field: "sandbox_ids",
        option: "–",
        value: "sb-0000000000000000",
        shown: "1 to 100 ids",
        state: "honoured",
        means: "those that have a sample",
        rows: ["surface S2"],
      },
      { field: "sandbox_ids", option: "–", value: "a,,b", shown: "doubles, empty ones, more", state: "refused" },
    ],
  },
  {
    title: "Logs",
    operations: ["getSandboxLogs"],
    send: aboutSandbox("/sandboxes/{sandboxID}/logs"),
    cases: [
      {
        field: "start",
        option: "`sandbox logs -f`",
        value: 0,
        shown: "milliseconds since 1970",
        state: "honoured",
        means: "lines from then on",
        rows: ["cli C1b"],
      },
      { field: "limit", option: "–", value: 10, state: "honoured", means: "how many lines", rows: ["cli C1a"] },
    ],
  },
  {
    title: "Logs, second version",
    operations: ["getSandboxLogsV2"],
    send: aboutSandbox("/v2/sandboxes/{sandboxID}/logs"),
    cases: [
      {
        field: "cursor",
        option: "–",
        value: 0,
        shown: "milliseconds since 1970",
        state: "honoured",
        means: "where the page begins",
      },
      { field: "limit", option: "–", value: 10, state: "honoured", means: "how many lines" },
      {
        field: "direction",
        option: "–",
        value: "backward",
        shown: "`forward`, `backward`",
        state: "honoured",
        means: "from the cursor on, or up to it",
      },
      { field: "direction", option: "–", value: "sideways", shown: "anything else", state: "refused" },
      { field: "level", option: "–", value: "error", state: "honoured", means: "the lowest that is shown" },
      { field: "search", option: "–", value: "text", state: "honoured", means: "lines with that text" },
    ],
  },
  {
    title: "List snapshots",
    operations: ["listSnapshots"],
    send: onPath("/snapshots"),
    cases: [
      {
        field: "sandboxID",
        option: "`sandboxId`",
        value: "sb-0000000000000000",
        shown: "an id",
        state: "honoured",
        means: "those of one sandbox",
        rows: ["surface S3"],
      },
      {
        field: "name",
        option: "–",
        value: "mine",
        state: "honoured",
        means: "of exactly that name or id",
        rows: ["surface S15"],
      },
      {
        field: "limit",
        option: "`limit`",
        value: 100,
        shown: "1 to 100",
        state: "honoured",
        means: "absent is 100",
        rows: ["surface S15"],
      },
      { field: "limit", option: "`limit`", value: 0, shown: "anything else", state: "refused" },
      {
        field: "nextToken",
        option: "`nextToken`",
        value: "",
        shown: "of a page before",
        state: "honoured",
        means: "in the header `X-Next-Token`",
        rows: ["surface S15"],
      },
      { field: "nextToken", option: "`nextToken`", value: "not-a-token", shown: "anything else", state: "refused" },
    ],
  },
  {
    title: "Assign tags",
    operations: ["assignTags"],
    send: (fleet, field, value) =>
      fleet.send("POST", "/templates/tags", { target: BUILT, tags: ["v1"], [field]: value }),
    cases: [
      {
        field: "target",
        option: "`target`",
        value: BUILT,
        shown: "`name` or `name:tag`",
        state: "honoured",
        means: "`name:default` is the current build",
        rows: ["surface S16", "builds T4"],
      },
      {
        field: "tags",
        option: "`tags`",
        value: ["v2"],
        shown: "one or more",
        state: "honoured",
        means: "at most 16 for a template",
        rows: ["surface S16", "builds T4"],
      },
      { field: "tags", option: "`tags`", value: [], shown: "none", state: "refused" },
    ],
  },
  {
    title: "Remove tags",
    operations: ["removeTags"],
    send: async (fleet, field, value) => {
      await fleet.send("POST", "/templates/tags", { target: BUILT, tags: ["v1"] });
      return fleet.send("DELETE", "/templates/tags", { name: BUILT, tags: ["v1"], [field]: value });
    },
    cases: [
      {
        field: "name",
        option: "`name`",
        value: BUILT,
        shown: "a built template",
        state: "honoured",
        means: "404 for another",
        rows: ["surface S16"],
      },
      {
        field: "tags",
        option: "`tags`",
        value: ["v1"],
        shown: "one or more",
        state: "honoured",
        means: "all or none",
        rows: ["surface S16"],
      },
    ],
  },
  {
    title: "Change a template",
    operations: ["patchTemplate", "patchTemplateV2"],
    send: (fleet, field, value) => fleet.send("PATCH", `/v2/templates/${BUILT}`, { [field]: value }),
    cases: [
      {
        field: "public",
        option: "`template publish`",
        value: true,
        shown: "any",
        state: "accepted",
        means: "changes nothing: a namespace sees its own templates",
      },
    ],
  },
  {
    title: "Ask for a build",
    operations: ["requestBuild"],
    send: (fleet, field, value) =>
      fleet.send("POST", "/v3/templates", { ...(field === "alias" ? {} : { name: "new" }), [field]: value }),
    cases: [
      {
        field: "name",
        option: "`name`",
        value: "new:v1",
        shown: "`name` or `name:tag`",
        state: "honoured",
        means: "in the key's namespace",
        rows: ["builds T1", "builds T4"],
      },
      { field: "name", option: "`name`", value: "a b", shown: "other characters, too long", state: "refused" },
      {
        field: "alias",
        option: "the older spelling of `name`",
        value: "new",
        state: "honoured",
        means: "as `name`",
        rows: ["builds C8a"],
      },
      {
        field: "tags",
        option: "`tags`",
        value: ["v1"],
        state: "honoured",
        means: "set when the build is done",
        rows: ["builds T1", "builds T4"],
      },
      {
        field: "cpuCount",
        option: "`cpuCount`",
        value: 4,
        state: "honoured",
        means: "picks the size: `small`, `medium` or `large`",
        rows: ["builds T1"],
      },
      {
        field: "memoryMB",
        option: "`memoryMB`",
        value: 1024,
        state: "honoured",
        means: "picks the size as well",
        rows: ["builds T1"],
      },
      {
        field: "minFreeDiskMb",
        option: "`minFreeDiskMb`",
        value: 512,
        state: "accepted",
        means: "no effect, which the build's log says",
      },
    ],
  },
  {
    title: "Start a build",
    operations: ["startBuild"],
    send: async (fleet, field, value) => {
      const asked = await fleet.send("POST", "/v3/templates", { name: "started" });
      const { buildID } = asked.body as { buildID: string };
      const body = { fromImage: "nobody/serves:this", steps: [], [field]: value };
      return fleet.send("POST", `/v2/templates/started/builds/${buildID}`, body);
    },
    cases: [
      {
        field: "fromImage",
        option: "`fromImage`",
        value: "base",
        shown: "a pool image, or an alias of one",
        state: "honoured",
        means: "nothing is pulled",
        rows: ["builds T1", "builds T7"],
      },
      { field: "fromTemplate", option: "`fromTemplate`", value: "base", shown: "any", state: "refused" },
      {
        field: "fromImageRegistry",
        option: "`fromImage` with credentials",
        value: { type: "registry" },
        shown: "any",
        state: "refused",
      },
      {
        field: "steps",
        option: "`runCmd`, `setEnvs`, `setWorkdir`, `setUser`, `copy`",
        value: [{ type: "RUN", args: ["true"] }],
        shown: "`RUN`, `ENV`, `WORKDIR`, `USER`, `COPY`",
        state: "honoured",
        means: "`COPY` needs an upload store",
        rows: ["builds T1", "builds T9"],
      },
      {
        field: "steps",
        option: "a step of another kind",
        value: [{ type: "MOUNT", args: [] }],
        shown: "anything else",
        state: "refused",
      },
      {
        field: "startCmd",
        option: "`setStartCmd`",
        value: "true",
        state: "honoured",
        means: "runs in sandboxes of the template",
        rows: ["builds T1", "builds T2"],
      },
      {
        field: "readyCmd",
        option: "`setReadyCmd`",
        value: "true",
        state: "honoured",
        means: "tried every second",
        rows: ["builds T1", "builds C8a"],
      },
    ],
  },
  {
    title: "State and log of a build",
    operations: ["getBuildStatus"],
    send: buildQuery("status"),
    cases: [
      {
        field: "logsOffset",
        option: "`logsOffset`",
        value: 0,
        state: "honoured",
        means: "lines that are skipped",
        rows: ["builds T10"],
      },
      { field: "logsOffset", option: "`logsOffset`", value: -1, shown: "negative", state: "refused" },
      { field: "limit", option: "–", value: 10, state: "honoured", means: "how many lines" },
      { field: "level", option: "–", value: "warn", state: "honoured", means: "the lowest that is shown" },
    ],
  },
  {
    title: "Log of a build",
    operations: ["getBuildLogs"],
    send: buildQuery("logs"),
    cases: [
      {
        field: "cursor",
        option: "–",
        value: 0,
        shown: "milliseconds since 1970",
        state: "honoured",
        means: "where the page begins",
      },
      { field: "limit", option: "–", value: 10, state: "honoured", means: "how many lines" },
      {
        field: "direction",
        option: "–",
        value: "backward",
        shown: "`forward`, `backward`",
        state: "honoured",
        means: "from the cursor on, or up to it",
      },
      { field: "level", option: "–", value: "warn", state: "honoured", means: "the lowest that is shown" },
    ],
  },
];

/** Parameters of a signed address, which nobody but the service that gave it out writes. */
export const SIGNED_OPERATIONS: readonly string[] = ["uploadFiles"];

function buildQuery(page: string): OptionGroup["send"] {
  return async (fleet, field, value) => {
    const asked = await fleet.send("POST", "/v3/templates", { name: "shown" });
    const { buildID = EXAMPLES["buildID"] } = asked.body as { buildID?: string };
    return fleet.send("GET", `/templates/shown/builds/${buildID}/${page}${query(field, value)}`);
  };
}
