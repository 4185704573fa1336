import { z } from "zod";
import {
  countSchema,
  integerSchema,
  listSchema,
  maybe,
  stringMapSchema,
  toSize,
  toText,
  toTimeText,
  wireVolumeSchema,
  type StringMap,
  type WireVolume,
} from "./common.ts";

/** Pool key of a reply: nodes always write all three members. */
export interface FullPoolKey {
  readonly template: string;
  readonly net: string;
  readonly size: string;
}

/** Shape of a pool key in a reply, with the defaults filled in. */
export const fullPoolKeySchema: z.ZodType<FullPoolKey> = z.object({
  template: z.string(),
  net: z
    .unknown()
    .optional()
    .transform((value) => toText(value) ?? "none"),
  size: z
    .unknown()
    .optional()
    .transform((value) => toText(value) ?? "small"),
});

/** One sandbox of the index. Node API §6.1. */
export interface SandboxRow {
  readonly id: string;
  readonly key: FullPoolKey;
  readonly tenant?: string | undefined;
  /** RFC 3339. Absent when there is no expiry: the zero time on the wire. */
  readonly deadline?: string | undefined;
  readonly claimed_at?: string | undefined;
  readonly hibernated: boolean;
  readonly archived?: boolean | undefined;
  readonly from_checkpoint?: string | undefined;
  readonly claim_ref?: string | undefined;
  readonly on_expire?: string | undefined;
  readonly metadata?: StringMap | undefined;
  readonly cpu_count?: number | undefined;
  readonly mem_total_bytes?: number | undefined;
  readonly volumes?: readonly WireVolume[] | undefined;
  readonly restarts?: number | undefined;
  readonly restarted_at?: string | undefined;
  readonly failed?: string | undefined;
  /** Only in the by-id read, and only for the root token. A secret. */
  readonly token?: string | undefined;
}

const text = z.unknown().optional().transform(toText);
const time = z.unknown().optional().transform(toTimeText);
const size = z.unknown().optional().transform(toSize);
const flag = z
  .unknown()
  .optional()
  .transform((value) => value === true);

/** Shape of a row. Optional members of the wrong type read as absent. */
export const sandboxRowSchema: z.ZodType<SandboxRow> = z.object({
  id: z.string().min(1),
  key: fullPoolKeySchema.catch({ template: "", net: "none", size: "small" }),
  tenant: text,
  deadline: time,
  claimed_at: time,
  hibernated: flag,
  archived: flag.transform((value) => (value ? true : undefined)),
  from_checkpoint: text,
  claim_ref: text,
  on_expire: text,
  metadata: stringMapSchema
    .optional()
    .catch(undefined)
    .transform((map) => (map === undefined || Object.keys(map).length === 0 ? undefined : map)),
  cpu_count: size,
  mem_total_bytes: size,
  volumes: listSchema(wireVolumeSchema)
    .catch([])
    .transform((volumes) => (volumes.length === 0 ? undefined : volumes)),
  restarts: size,
  restarted_at: time,
  failed: text,
  token: text,
});

/** Reply of `GET /v1/sandboxes`. */
export interface IndexReply {
  readonly sandboxes: readonly SandboxRow[];
}

/** Shape of the index. {@link readIndex} reads the same much faster. */
export const indexReplySchema: z.ZodType<IndexReply> = z.object({ sandboxes: listSchema(sandboxRowSchema) });

/** Reply of `GET /v1/sandboxes/{id}/stats`. Node API §6.3. */
export interface StatsReply {
  readonly id: string;
  readonly cpu_count: number;
  readonly mem_total_bytes: number;
  readonly mem_used_bytes: number;
  readonly mem_used_measured: boolean;
  readonly hibernated: boolean;
  readonly measured_at: string;
}

/** Shape of the stats. */
export const statsReplySchema: z.ZodType<StatsReply> = z.object({
  id: z.string(),
  cpu_count: countSchema,
  mem_total_bytes: countSchema,
  mem_used_bytes: countSchema,
  mem_used_measured: z.boolean(),
  hibernated: z.boolean(),
  measured_at: z.string(),
});

/** Reply of `GET /v1/sandboxes/{id}/owner`. Empty on a node that advertises no host. Node API §6.4. */
export interface OwnerReply {
  readonly owner_addr: string;
}

/** Shape of the owner reply. */
export const ownerReplySchema: z.ZodType<OwnerReply> = z.object({
  owner_addr: z
    .string()
    .nullish()
    .transform((value) => value ?? ""),
});

/** Body of `POST /v1/sandboxes/{id}/renew`; an absent body means `{}`. Node API §7.4. */
export interface RenewRequest {
  readonly ttl_seconds?: number | undefined;
  readonly on_expire?: string | undefined;
}

/** Shape of a renewal. */
export const renewRequestSchema: z.ZodType<RenewRequest> = z.object({
  ttl_seconds: maybe(integerSchema),
  on_expire: maybe(z.string()),
});

/** Reply of a renewal: the granted lease end, RFC 3339. */
export interface RenewReply {
  readonly deadline: string;
}

/** Shape of a renewal's reply. */
export const renewReplySchema: z.ZodType<RenewReply> = z.object({ deadline: z.string() });
