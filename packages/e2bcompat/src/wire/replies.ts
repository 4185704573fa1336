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

/** Reply of a snapshot's creation, and one item of the list. */
export interface SnapshotReply {
  readonly snapshotID: string;
  readonly names: readonly string[];
}

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

/** One item of a template's tags. */
export interface TagReply {
  readonly tag: string;
  readonly buildID: string;
  readonly createdAt: string;
}
