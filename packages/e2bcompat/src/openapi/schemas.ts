import * as z from "zod";
import { buildLogsReply, buildRequest, buildStatus } from "../builds/build-reply.ts";
import { buildStart, templateRequest } from "../builds/build-requests.ts";
import type { JsonSchema } from "../query.ts";
import * as replies from "../wire/replies.ts";
import * as requests from "../wire/requests.ts";

/** What is read: unknown fields are passed over. */
const REQUESTS: Readonly<Record<string, z.ZodType>> = {
  CreateSandbox: requests.createSandbox,
  SetTimeout: requests.setTimeoutBody,
  Refresh: requests.refreshBody,
  PauseSandbox: requests.pauseBody,
  ConnectSandbox: requests.connectBody,
  ResumeSandbox: requests.resumeBody,
  ForkSandbox: requests.forkBody,
  SnapshotSandbox: requests.snapshotBody,
  TemplatePatch: requests.templatePatch,
  AssignTags: requests.assignTagsBody,
  RemoveTags: requests.removeTagsBody,
  BuildRequest: templateRequest,
  BuildStart: buildStart,
};

/** What is answered: nothing else is in it. */
const REPLIES: Readonly<Record<string, z.ZodType>> = {
  Error: replies.errorReply,
  Sandbox: replies.sandboxReply,
  SandboxDetail: replies.sandboxDetail,
  SandboxDetails: replies.sandboxDetails,
  Forks: replies.forkReplies,
  Metrics: replies.metricsReplies,
  MetricsOfMany: replies.metricsOfManyReply,
  Logs: replies.logsReply,
  LogsV2: replies.logsV2Reply,
  Snapshot: replies.snapshotReply,
  Snapshots: replies.snapshotReplies,
  Templates: replies.templateReplies,
  TemplateDetail: replies.templateDetailReply,
  TemplateNames: replies.templateNamesReply,
  TemplateAlias: replies.aliasReply,
  Tags: replies.tagReplies,
  AssignedTags: replies.assignedTagsReply,
  UploadLink: replies.uploadLinkReply,
  Build: buildRequest,
  BuildStatus: buildStatus,
  BuildLogs: buildLogsReply,
  OpenApi: replies.documentReply,
};

const uri = (name: string): string => `#/components/schemas/${name}`;

function convert(named: Readonly<Record<string, z.ZodType>>, io: "input" | "output"): Record<string, JsonSchema> {
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(named)) {
    registry.add(schema, { id });
  }
  // Schemas with a check of their own describe themselves.
  const { schemas } = z.toJSONSchema(registry, { io, uri, unrepresentable: "any" });
  return Object.fromEntries(
    Object.entries(schemas).map(([name, { $schema: _dialect, $id: _id, ...schema }]) => [name, schema as JsonSchema]),
  );
}

/** The schemas of a document. */
export interface Schemas {
  readonly components: Readonly<Record<string, JsonSchema>>;
  /** A reference to one that has a name. Throws for one that has none. */
  readonly refTo: (schema: z.ZodType) => JsonSchema;
}

/** Makes the schemas out of those that requests are parsed with and answers are tested against. */
export function createSchemas(): Schemas {
  const names = new Map(
    [...Object.entries(REQUESTS), ...Object.entries(REPLIES)].map(([name, schema]) => [schema, name]),
  );
  return {
    components: { ...convert(REQUESTS, "input"), ...convert(REPLIES, "output") },
    refTo(schema) {
      const name = names.get(schema);
      if (name === undefined) {
        throw new TypeError("a body of a route has a schema without a name");
      }
      return { $ref: uri(name) };
    },
  };
}
