import { z } from "zod";
import { claimReplySchema, type ClaimReply } from "./claim.ts";
import { integerSchema, listSchema, maybe, stringMapSchema, type StringMap } from "./common.ts";
import { fullPoolKeySchema, type FullPoolKey } from "./sandbox.ts";

/** Body of `POST /v1/sandboxes/{id}/fork`. Node API §7.5. */
export interface ForkRequest {
  /** The sandbox's token, or empty with the root bearer. */
  readonly token?: string | undefined;
  readonly count: number;
  readonly ttl_seconds?: number | undefined;
  readonly claim_ref_prefix?: string | undefined;
  readonly on_expire?: string | undefined;
}

/** Shape of a fork. An absent `count` reads as 0, which nodes refuse. */
export const forkRequestSchema: z.ZodType<ForkRequest> = z.object({
  token: maybe(z.string()),
  count: maybe(integerSchema).transform((value) => value ?? 0),
  ttl_seconds: maybe(integerSchema),
  claim_ref_prefix: maybe(z.string()),
  on_expire: maybe(z.string()),
});

/** Reply of a fork: all children or an error. */
export interface ForkReply {
  readonly children: readonly ClaimReply[];
}

/** Shape of a fork's reply. */
export const forkReplySchema: z.ZodType<ForkReply> = z.object({ children: listSchema(claimReplySchema) });

/** Body of `POST /v1/sandboxes/{id}/checkpoint`. Node API §8.1. */
export interface CheckpointRequest {
  readonly token?: string | undefined;
  readonly name?: string | undefined;
}

/** Shape of a checkpoint request. */
export const checkpointRequestSchema: z.ZodType<CheckpointRequest> = z.object({
  token: maybe(z.string()),
  name: maybe(z.string()),
});

/** One checkpoint. */
export interface CheckpointRecord {
  readonly id: string;
  readonly name?: string | undefined;
  readonly sandbox_id: string;
  readonly key: FullPoolKey;
  readonly tenant?: string | undefined;
  readonly created_at: string;
}

const checkpointRecordShape = z.object({
  id: z.string().min(1),
  name: maybe(z.string()),
  sandbox_id: z.string(),
  key: fullPoolKeySchema,
  tenant: maybe(z.string()),
  created_at: z.string(),
});

/** Shape of a checkpoint. */
export const checkpointRecordSchema: z.ZodType<CheckpointRecord> = checkpointRecordShape;

/** Reply of a checkpoint request. */
export interface CheckpointReply {
  readonly checkpoint: CheckpointRecord;
}

/** Shape of a checkpoint's reply. */
export const checkpointReplySchema: z.ZodType<CheckpointReply> = z.object({ checkpoint: checkpointRecordShape });

/** Reply of `GET /v1/checkpoints`, newest first. Node API §8.2. */
export interface CheckpointsReply {
  readonly checkpoints: readonly CheckpointRecord[];
}

/** Shape of the checkpoint list. */
export const checkpointsReplySchema: z.ZodType<CheckpointsReply> = z.object({
  checkpoints: listSchema(checkpointRecordSchema),
});

/** Body of `POST /v1/sandboxes/{id}/promote`. Node API §8.5. */
export interface PromoteRequest {
  readonly token?: string | undefined;
  readonly template: string;
}

/** Shape of a promotion. */
export const promoteRequestSchema: z.ZodType<PromoteRequest> = z.object({
  token: maybe(z.string()),
  template: maybe(z.string()).transform((template) => template ?? ""),
});

/** Reply of a promotion. `content_digest` is `sha256:` and hex. */
export interface PromoteReply {
  readonly key: FullPoolKey;
  readonly content_digest: string;
}

/** Shape of a promotion's reply. */
export const promoteReplySchema: z.ZodType<PromoteReply> = z.object({
  key: fullPoolKeySchema,
  content_digest: z.string(),
});

/** Body of `PUT /v1/templates/labels`; `null` and `{}` clear. Unknown members are refused. Node API §8.7. */
export interface LabelsRequest {
  readonly labels: StringMap;
}

/** Shape of a label change. */
export const labelsRequestSchema: z.ZodType<LabelsRequest> = z.strictObject({
  labels: stringMapSchema.nullish().transform((labels): StringMap => labels ?? {}),
});

/** Body of `PUT /v1/sandboxes/{id}/instance-metadata`: one JSON object, kept verbatim. Node API §7.7. */
export type InstanceMetadata = Readonly<Record<string, unknown>>;

/** Shape of instance metadata. */
export const instanceMetadataSchema: z.ZodType<InstanceMetadata> = z.record(z.string(), z.unknown());
