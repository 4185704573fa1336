import * as z from "zod";

// No answer is parsed: the schemas describe what is served, and the tests hold every answer against them. Nothing
// may be in an answer that its schema does not have.

/** RFC 3339 in UTC at second precision: some clients parse nothing else. */
const second = z.iso.datetime({ precision: 0 });
/** RFC 3339 in UTC at millisecond precision. */
const millisecond = z.iso.datetime({ precision: 3 });
const count = z.int().nonnegative();
const amount = z.number().nonnegative();
/** Names and values of the client's own. */
const strings = z.record(z.string(), z.string());

/** Body of every error answer. Clients decide by `code`. */
export const errorReply: z.ZodType<{ readonly code: number; readonly message: string }> = z.strictObject({
  code: z.int().min(400).max(599).describe("The HTTP status."),
  message: z.string().min(1).describe("What is wrong, for people."),
});

/** Reply of create, connect and resume: `Sandbox` in the API's terms. */
export interface SandboxReply {
  readonly templateID: string;
  readonly sandboxID: string;
  readonly clientID: string;
  readonly envdVersion: string;
  readonly envdAccessToken?: string | undefined;
  readonly domain: string;
  readonly alias?: string | undefined;
}

export const sandboxReply: z.ZodType<SandboxReply> = z.strictObject({
  templateID: z.string(),
  sandboxID: z.string().describe("Fits a host name."),
  clientID: z.string().describe("The node that holds it."),
  envdVersion: z.string(),
  envdAccessToken: z
    .string()
    .optional()
    .describe("Opens the sandbox's daemon. A secret; nodes without tokens have none."),
  domain: z.string().describe("A port of the guest is at `<port>-<sandboxID>.<domain>`."),
  alias: z.string().optional(),
});

/** Reply of get, and one item of a list. Every field without `?` is required by some client. */
export interface SandboxDetail {
  readonly templateID: string;
  readonly alias?: string | undefined;
  readonly sandboxID: string;
  readonly clientID: string;
  readonly startedAt: string;
  readonly endAt: string;
  readonly state: "running" | "paused";
  readonly envdVersion: string;
  readonly cpuCount: number;
  readonly memoryMB: number;
  readonly diskSizeMB: number;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  readonly domain: string;
}

export const sandboxDetail: z.ZodType<SandboxDetail> = z.strictObject({
  templateID: z.string(),
  alias: z.string().optional(),
  sandboxID: z.string(),
  clientID: z.string().describe("The node that holds it."),
  startedAt: second,
  endAt: second.describe("The end of its lease."),
  state: z.enum(["running", "paused"]),
  envdVersion: z.string(),
  cpuCount: count,
  memoryMB: count,
  diskSizeMB: count,
  metadata: strings.optional(),
  domain: z.string(),
});

export const sandboxDetails: z.ZodType<readonly SandboxDetail[]> = z.array(sandboxDetail);

/** One item of the template list. */
export interface TemplateReply {
  readonly templateID: string;
  readonly buildID: string;
  readonly cpuCount: number;
  readonly memoryMB: number;
  readonly diskSizeMB: number;
  readonly public: boolean;
  readonly aliases: readonly string[];
  readonly names: readonly string[];
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly createdBy: null;
  readonly lastSpawnedAt: null;
  readonly spawnCount: number;
  readonly buildCount: number;
  readonly envdVersion: string;
  readonly buildStatus: "ready";
}

export const templateReplies: z.ZodType<readonly TemplateReply[]> = z.array(
  z.strictObject({
    templateID: z.string(),
    buildID: z.string(),
    cpuCount: count,
    memoryMB: count,
    diskSizeMB: count,
    public: z.boolean(),
    aliases: z.array(z.string()),
    names: z.array(z.string()),
    createdAt: second,
    updatedAt: second,
    createdBy: z.null(),
    lastSpawnedAt: z.null(),
    spawnCount: count,
    buildCount: count,
    envdVersion: z.string(),
    buildStatus: z.literal("ready"),
  }),
);

/** One item of `logs` in the first version of a log page. */
export interface LogLineReply {
  readonly timestamp: string;
  /** A JSON document with a string `level`: some clients read it, and print its other fields. */
  readonly line: string;
}

/** One line of a log page: `logEntries` of the first version, `logs` of the second. */
export interface LogEntryReply {
  readonly timestamp: string;
  readonly level: "debug" | "info" | "warn" | "error";
  readonly message: string;
  readonly fields: Readonly<Record<string, string>>;
}

const logEntry = z.strictObject({
  timestamp: millisecond,
  level: z.enum(["debug", "info", "warn", "error"]),
  message: z.string(),
  fields: strings,
});

/** Reply of the first version of a log page. */
export const logsReply: z.ZodType<{
  readonly logs: readonly LogLineReply[];
  readonly logEntries: readonly LogEntryReply[];
}> = z.strictObject({
  logs: z.array(z.strictObject({ timestamp: millisecond, line: z.string().describe("A JSON document.") })),
  logEntries: z.array(logEntry),
});

/** Reply of the second version of a log page. */
export const logsV2Reply: z.ZodType<{ readonly logs: readonly LogEntryReply[] }> = z.strictObject({
  logs: z.array(logEntry),
});

/** Reply of a snapshot's creation, and one item of the list. */
export interface SnapshotReply {
  readonly snapshotID: string;
  readonly names: readonly string[];
}

export const snapshotReply: z.ZodType<SnapshotReply> = z.strictObject({
  snapshotID: z.string(),
  names: z.array(z.string()),
});

export const snapshotReplies: z.ZodType<readonly SnapshotReply[]> = z.array(snapshotReply);

/** What a guest used at one moment. Bytes, unless the name says otherwise. */
export interface MetricsReply {
  readonly timestamp: string;
  readonly timestampUnix: number;
  readonly cpuCount: number;
  readonly cpuUsedPct: number;
  readonly memUsed: number;
  readonly memTotal: number;
  readonly memCache: number;
  readonly diskUsed: number;
  readonly diskTotal: number;
}

const metricsReply: z.ZodType<MetricsReply> = z.strictObject({
  timestamp: second,
  timestampUnix: count,
  cpuCount: amount,
  cpuUsedPct: amount,
  memUsed: count,
  memTotal: count,
  memCache: count,
  diskUsed: count,
  diskTotal: count,
});

export const metricsReplies: z.ZodType<readonly MetricsReply[]> = z.array(metricsReply);

/** Reply of the metrics of several sandboxes, by the ids that were asked for. */
export const metricsOfManyReply: z.ZodType<{ readonly sandboxes: Readonly<Record<string, MetricsReply>> }> =
  z.strictObject({ sandboxes: z.record(z.string(), metricsReply) });

/** One build of a template. */
export interface BuildReply {
  readonly buildID: string;
  readonly status: "ready";
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly finishedAt: string;
  readonly cpuCount: number;
  readonly memoryMB: number;
  readonly diskSizeMB: number;
  readonly envdVersion: string;
}

const buildReply: z.ZodType<BuildReply> = z.strictObject({
  buildID: z.string(),
  status: z.literal("ready"),
  createdAt: second,
  updatedAt: second,
  finishedAt: second,
  cpuCount: count,
  memoryMB: count,
  diskSizeMB: count,
  envdVersion: z.string(),
});

/** Reply of a built template's details. */
export interface TemplateDetailReply {
  readonly templateID: string;
  readonly public: boolean;
  readonly aliases: readonly string[];
  readonly names: readonly string[];
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly lastSpawnedAt: null;
  readonly spawnCount: number;
  readonly builds: readonly BuildReply[];
}

export const templateDetailReply: z.ZodType<TemplateDetailReply> = z.strictObject({
  templateID: z.string(),
  public: z.boolean(),
  aliases: z.array(z.string()),
  names: z.array(z.string()),
  createdAt: second,
  updatedAt: second,
  lastSpawnedAt: z.null(),
  spawnCount: count,
  builds: z.array(buildReply),
});

/** Reply of a change to a template. */
export const templateNamesReply: z.ZodType<{ readonly names: readonly string[] }> = z.strictObject({
  names: z.array(z.string()),
});

/** Reply of a search for a name. */
export const aliasReply: z.ZodType<{ readonly templateID: string; readonly public: boolean }> = z.strictObject({
  templateID: z.string(),
  public: z.boolean(),
});

/** One item of a template's tags. */
export interface TagReply {
  readonly tag: string;
  readonly buildID: string;
  readonly createdAt: string;
}

export const tagReplies: z.ZodType<readonly TagReply[]> = z.array(
  z.strictObject({ tag: z.string(), buildID: z.string(), createdAt: second }),
);

/** Reply of tags that were given. */
export const assignedTagsReply: z.ZodType<{ readonly tags: readonly string[]; readonly buildID: string }> =
  z.strictObject({ tags: z.array(z.string()), buildID: z.string() });

/** Reply of a fork: one item for each child. */
export const forkReplies: z.ZodType<readonly { readonly sandbox: SandboxReply }[]> = z.array(
  z.strictObject({ sandbox: sandboxReply }),
);

/** Reply of the place for an upload. */
export const uploadLinkReply: z.ZodType<{ readonly present: boolean; readonly url?: string | undefined }> =
  z.strictObject({
    present: z.boolean(),
    url: z.url().optional().describe("Where to `PUT` the archive, within an hour. A secret."),
  });

/** Reply of the document that describes all of this. */
export const documentReply: z.ZodType<{ readonly openapi: string }> = z.looseObject({ openapi: z.string() });
