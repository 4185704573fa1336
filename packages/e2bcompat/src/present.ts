import { publicSandboxId } from "@org/sandbox-address";
import type { PromotedTemplate, Sandbox } from "@org/scale";
import type { Settings } from "./options.ts";
import { buildIdOf } from "./build-id.ts";
import { builtPrefix } from "./built-template.ts";
import type { BuiltTemplate } from "./built-template.ts";
import type { PoolImage } from "./template-catalog.ts";
import type {
  BuildReply,
  SandboxDetail,
  SandboxReply,
  TagReply,
  TemplateDetailReply,
  TemplateReply,
} from "./wire/replies.ts";

/** What a size tier gives a guest, for nodes that do not say it of each sandbox. */
const TIERS: ReadonlyMap<string, { readonly cpuCount: number; readonly memoryMB: number }> = new Map([
  ["small", { cpuCount: 1, memoryMB: 512 }],
  ["medium", { cpuCount: 2, memoryMB: 1024 }],
  ["large", { cpuCount: 4, memoryMB: 4096 }],
  ["xlarge", { cpuCount: 4, memoryMB: 8192 }],
  ["2xlarge", { cpuCount: 8, memoryMB: 16_384 }],
]);

const MEBIBYTE = 1_048_576;

/** The last second that RFC 3339 can write. */
const LAST_MS = Date.UTC(9999, 11, 31, 23, 59, 59);

/** RFC 3339 in UTC at second precision: some clients parse nothing else. */
export function rfc3339(ms: number): string {
  return `${new Date(Math.min(ms, LAST_MS)).toISOString().slice(0, 19)}Z`;
}

function positive(value: number | undefined): number | undefined {
  return value !== undefined && Number.isSafeInteger(value) && value > 0 ? value : undefined;
}

function resources(
  size: string | undefined,
  cpuCount: number | undefined,
  memoryBytes: number | undefined,
): { readonly cpuCount: number; readonly memoryMB: number } {
  const tier = TIERS.get(size ?? "small");
  const bytes = positive(memoryBytes);
  return {
    cpuCount: positive(cpuCount) ?? tier?.cpuCount ?? 0,
    memoryMB: bytes === undefined ? (tier?.memoryMB ?? 0) : Math.floor(bytes / MEBIBYTE),
  };
}

/** The template name that clients see: the pool image, or the bare name of a built template of this namespace. */
function publicTemplate(template: string | undefined, namespace: string): string {
  const prefix = builtPrefix(namespace);
  return template === undefined ? "" : template.startsWith(prefix) ? template.slice(prefix.length) : template;
}

/** Where a sandbox is and how to reach its guest. */
export interface Reachable {
  readonly id: string;
  readonly node: string;
  readonly namespace: string;
  /** As nodes name it. */
  readonly template: string | undefined;
  /** A secret; absent on open nodes. */
  readonly accessToken: string | undefined;
}

/** A date that a node really reported. */
function timeOf(date: Date | undefined): number | undefined {
  const ms = date?.getTime();
  return ms === undefined || Number.isNaN(ms) ? undefined : ms;
}

/** The reply of create, connect and resume. */
export function sandboxReply(settings: Settings, sandbox: Reachable): SandboxReply {
  return {
    templateID: publicTemplate(sandbox.template, sandbox.namespace),
    sandboxID: publicSandboxId(sandbox.id),
    clientID: sandbox.node,
    envdVersion: settings.envdVersion,
    envdAccessToken: sandbox.accessToken,
    domain: settings.domain,
    alias: settings.aliases.of(sandbox.template ?? "")[0],
  };
}

/** The reply of get and an item of a list. `nowMs` stands in for a start that no node reported. */
export function sandboxDetail(
  settings: Settings,
  sandbox: Sandbox,
  live: { readonly paused: boolean; readonly deadline?: Date | undefined },
  nowMs: number,
): SandboxDetail {
  const deadline = timeOf(live.deadline);
  // Never a start behind the end, also when our clock is ahead of the node's.
  const started = timeOf(sandbox.claimedAt) ?? Math.min(nowMs, deadline ?? nowMs);
  const ends = Math.max(started, deadline ?? started + settings.defaultTimeoutSeconds * 1000);
  const { cpuCount, memoryMB } = resources(sandbox.size, sandbox.cpuCount, sandbox.memoryBytes);
  return {
    templateID: publicTemplate(sandbox.template, sandbox.namespace),
    alias: settings.aliases.of(sandbox.template ?? "")[0],
    sandboxID: publicSandboxId(sandbox.id),
    clientID: sandbox.node,
    startedAt: rfc3339(started),
    endAt: rfc3339(ends),
    state: live.paused ? "paused" : "running",
    envdVersion: settings.envdVersion,
    cpuCount,
    memoryMB,
    diskSizeMB: 0,
    metadata: sandbox.metadata,
    domain: settings.domain,
  };
}

const FIXED = {
  diskSizeMB: 0,
  public: true,
  createdBy: null,
  lastSpawnedAt: null,
  spawnCount: 0,
  buildStatus: "ready",
} as const;

/** The template-list item of a pool image. */
export function poolTemplate(settings: Settings, { image, size }: PoolImage, since: string): TemplateReply {
  return {
    ...FIXED,
    ...resources(size, undefined, undefined),
    templateID: image,
    buildID: image,
    aliases: settings.aliases.of(image),
    names: [image],
    createdAt: since,
    updatedAt: since,
    buildCount: 0,
    envdVersion: settings.envdVersion,
  };
}

/** `name`, and `name:tag` for each tag. */
export function namesOf({ name, tags }: BuiltTemplate): readonly string[] {
  return [name, ...[...tags.keys()].map((tag) => `${name}:${tag}`)];
}

/** When a build was made. `since` stands in for what its node does not tell. */
function madeAt({ createdAt }: PromotedTemplate, since: string): string {
  const ms = timeOf(createdAt);
  return ms === undefined ? since : rfc3339(ms);
}

/** The template-list item of a built template. */
export function builtTemplate(settings: Settings, template: BuiltTemplate, since: string): TemplateReply {
  const { name, current, builds } = template;
  const createdAt = madeAt(current, since);
  return {
    ...FIXED,
    ...resources(current.size, current.cpuCount, current.memoryBytes),
    templateID: name,
    buildID: buildIdOf(current.contentDigest),
    aliases: [name],
    names: namesOf(template),
    createdAt,
    updatedAt: createdAt,
    buildCount: builds.length,
    envdVersion: settings.envdVersion,
  };
}

/** A built template with its builds. */
export function templateDetail(settings: Settings, template: BuiltTemplate, since: string): TemplateDetailReply {
  const { name, builds } = template;
  const replies = builds.map((build): BuildReply => {
    const createdAt = madeAt(build, since);
    return {
      buildID: buildIdOf(build.contentDigest),
      status: "ready",
      createdAt,
      updatedAt: createdAt,
      finishedAt: createdAt,
      ...resources(build.size, build.cpuCount, build.memoryBytes),
      diskSizeMB: 0,
      envdVersion: settings.envdVersion,
    };
  });
  const times = replies.map(({ createdAt }) => createdAt).sort();
  return {
    templateID: name,
    public: true,
    aliases: [name],
    names: namesOf(template),
    createdAt: times[0] ?? since,
    updatedAt: times.at(-1) ?? since,
    lastSpawnedAt: null,
    spawnCount: 0,
    builds: replies,
  };
}

/** The tags of a built template. A tag is as old as its build: nodes tell nothing else. */
export function tagList({ builds, tags }: BuiltTemplate, since: string): readonly TagReply[] {
  const made = new Map(builds.map((build) => [build.contentDigest, madeAt(build, since)]));
  return [...tags].map(([tag, digest]) => ({
    tag,
    buildID: buildIdOf(digest),
    createdAt: made.get(digest) ?? since,
  }));
}
