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
  type StringMap,
  type WirePoolKey,
} from "./common.ts";
import { fullPoolKeySchema, type FullPoolKey } from "./sandbox.ts";

/** One pool of a node: `warm` are ready, `refilling` are being made, `golden` says whether a clone source exists. */
export interface PoolInfo {
  readonly key: FullPoolKey;
  readonly warm: number;
  readonly refilling: number;
  readonly target: number;
  readonly golden: boolean;
}

/** One promoted template of a node. */
export interface TemplateInfo {
  readonly key: FullPoolKey;
  readonly content_digest: string;
  /** Absent means the operator. */
  readonly tenant?: string | undefined;
  readonly created_at?: string | undefined;
  readonly cpu_count?: number | undefined;
  readonly mem_total_bytes?: number | undefined;
  readonly labels?: StringMap | undefined;
}

/** Reply of `GET /v1/info`, of a pool change and of a drain. Node API §9.1. */
export interface InfoReply {
  readonly pools: readonly PoolInfo[];
  readonly templates: readonly TemplateInfo[];
  readonly claimed: number;
  readonly hibernated: number;
  readonly archived: number;
  readonly failed?: number | undefined;
  readonly draining?: boolean | undefined;
  /** The node's client address, and its key in a mesh. Absent on nodes that advertise no host. */
  readonly advertise_addr?: string | undefined;
  /** Client addresses of the other members. */
  readonly peers: readonly string[];
  readonly at_capacity?: boolean | undefined;
  readonly at_capacity_reason?: string | undefined;
}

const text = z.unknown().optional().transform(toText);
const size = z.unknown().optional().transform(toSize);
const flag = z
  .unknown()
  .optional()
  .transform((value) => (value === true ? true : undefined));

/** Shape of a pool of an info reply. */
export const poolInfoSchema: z.ZodType<PoolInfo> = z.object({
  key: fullPoolKeySchema,
  warm: countSchema,
  refilling: countSchema,
  target: countSchema,
  golden: z
    .unknown()
    .optional()
    .transform((value) => value === true),
});

/** Shape of a template of an info reply. */
export const templateInfoSchema: z.ZodType<TemplateInfo> = z.object({
  key: fullPoolKeySchema,
  content_digest: z
    .unknown()
    .optional()
    .transform((value) => toText(value) ?? ""),
  tenant: text,
  created_at: z.unknown().optional().transform(toTimeText),
  cpu_count: size,
  mem_total_bytes: size,
  labels: stringMapSchema
    .optional()
    .catch(undefined)
    .transform((map) => (map === undefined || Object.keys(map).length === 0 ? undefined : map)),
});

/** Shape of an info reply. {@link readInfo} reads the same faster. */
export const infoReplySchema: z.ZodType<InfoReply> = z.object({
  pools: listSchema(poolInfoSchema),
  templates: listSchema(templateInfoSchema),
  claimed: countSchema,
  hibernated: countSchema,
  archived: countSchema,
  failed: size,
  draining: flag,
  advertise_addr: text,
  peers: listSchema(z.string()),
  at_capacity: flag,
  at_capacity_reason: text,
});

/** Reply of `GET /v1/peers`. Node API §9.2. */
export interface PeersReply {
  readonly peers: readonly string[];
}

/** Shape of the peer list. */
export const peersReplySchema: z.ZodType<PeersReply> = z.object({ peers: listSchema(z.string()) });

/** One pool of `PUT /v1/pools`. Node API §9.3. */
export interface PoolSpec extends WirePoolKey {
  readonly warm: number;
  readonly warm_max?: number | undefined;
  readonly idle_hibernate_seconds?: number | undefined;
  readonly archive_after_seconds?: number | undefined;
  readonly archive_delete_after_seconds?: number | undefined;
}

/** Body of `PUT /v1/pools`: replaces all pools. Unknown members are refused. */
export interface PoolsRequest {
  readonly pools: readonly PoolSpec[];
}

/** Shape of a pool change. */
export const poolsRequestSchema: z.ZodType<PoolsRequest> = z.strictObject({
  pools: listSchema(
    z.strictObject({
      template: maybe(z.string()).transform((template) => template ?? ""),
      net: maybe(z.string()),
      size: maybe(z.string()),
      warm: maybe(integerSchema).transform((value) => value ?? 0),
      warm_max: maybe(integerSchema),
      idle_hibernate_seconds: maybe(integerSchema),
      archive_after_seconds: maybe(integerSchema),
      archive_delete_after_seconds: maybe(integerSchema),
    }),
  ),
});

/** One volume of a node's catalogue. */
export interface VolumeInfo {
  readonly name: string;
  readonly default_mount: string;
  readonly size_bytes: number;
  readonly available: boolean;
  readonly writable?: boolean | undefined;
}

/** Reply of `GET /v1/volumes`. Node API §9.7. */
export interface VolumesReply {
  readonly volumes: readonly VolumeInfo[];
}

/** Shape of the volume list. */
export const volumesReplySchema: z.ZodType<VolumesReply> = z.object({
  volumes: listSchema(
    z.object({
      name: z.string(),
      default_mount: z.string(),
      size_bytes: countSchema,
      available: z.boolean(),
      writable: maybe(z.boolean()),
    }),
  ),
});
