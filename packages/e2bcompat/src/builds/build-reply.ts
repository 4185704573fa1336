import type { LogLevel } from "@org/envd-client";
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

/** One line of a build's log. */
export interface BuildLineReply {
  readonly timestamp: string;
  readonly level: LogLevel;
  readonly message: string;
  readonly step: string;
}

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
