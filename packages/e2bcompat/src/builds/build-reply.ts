import { LOG_LEVELS } from "@org/envd-client";
import type { LogLevel } from "@org/envd-client";
import * as z from "zod";
import type { BuildLogEntry } from "./build-log.ts";
import type { BuildRecord, BuildStatus } from "./build-registry.ts";

/** Reply of a build's request. Every field is required by some client. */
export interface BuildRequestReply {
  readonly templateID: string;
  readonly buildID: string;
  readonly public: boolean;
  readonly names: readonly string[];
  readonly tags: readonly string[];
  readonly aliases: readonly string[];
}

export const buildRequest: z.ZodType<BuildRequestReply> = z.strictObject({
  templateID: z.string(),
  buildID: z.string(),
  public: z.boolean(),
  names: z.array(z.string()),
  tags: z.array(z.string()),
  aliases: z.array(z.string()),
});

/** One line of a build's log. */
export interface BuildLineReply {
  readonly timestamp: string;
  readonly level: LogLevel;
  readonly message: string;
  readonly step: string;
}

const line: z.ZodType<BuildLineReply> = z.strictObject({
  timestamp: z.iso.datetime({ precision: 3 }),
  level: z.enum(LOG_LEVELS),
  message: z.string(),
  step: z.string().describe("`base`, the number of a step, or `finalize`."),
});

/** Reply of a build's log. */
export const buildLogsReply: z.ZodType<{ readonly logs: readonly BuildLineReply[] }> = z.strictObject({
  logs: z.array(line),
});

/** Reply of a build's status. */
export interface BuildStatusReply {
  readonly templateID: string;
  readonly buildID: string;
  readonly status: BuildStatus;
  /** The older form of the log, which no client reads any more. */
  readonly logs: readonly string[];
  readonly logEntries: readonly BuildLineReply[];
  readonly reason?:
    | { readonly message: string; readonly step: string; readonly logEntries: readonly BuildLineReply[] }
    | undefined;
}

export const buildStatus: z.ZodType<BuildStatusReply> = z.strictObject({
  templateID: z.string(),
  buildID: z.string(),
  status: z.enum(["waiting", "building", "ready", "error"]),
  logs: z.array(z.string()).max(0).describe("The older form of the log, which is empty."),
  logEntries: z.array(line),
  reason: z.strictObject({ message: z.string(), step: z.string(), logEntries: z.array(line) }).optional(),
});

export function buildRequestReply({ template, buildId, tags }: BuildRecord): BuildRequestReply {
  return {
    templateID: template,
    buildID: buildId,
    public: true,
    names: [template, ...tags.map((tag) => `${template}:${tag}`)],
    tags,
    aliases: [template],
  };
}

export function buildLine({ timestampMs, level, message, step }: BuildLogEntry): BuildLineReply {
  return { timestamp: new Date(timestampMs).toISOString(), level, message, step };
}

export function buildStatusReply(record: BuildRecord, page: readonly BuildLogEntry[]): BuildStatusReply {
  const { template, buildId, status, failure, log } = record;
  const last = log.last === undefined ? [] : [buildLine(log.last)];
  return {
    templateID: template,
    buildID: buildId,
    status,
    logs: [],
    logEntries: page.map(buildLine),
    reason: failure === undefined ? undefined : { ...failure, logEntries: last },
  };
}
