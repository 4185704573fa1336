import { z } from "zod";
import {
  integerSchema,
  listSchema,
  maybe,
  stringMapSchema,
  wireVolumeSchema,
  type StringMap,
  type WirePoolKey,
  type WireVolume,
} from "./common.ts";

/** One variable of a claim's environment. Node API §7.6. */
export interface EnvEntry {
  readonly value: string;
  /** `false` keeps the value out of the guest. Default `true`. */
  readonly guest?: boolean | undefined;
  readonly inject?: Readonly<Record<string, unknown>> | undefined;
}

/** Shape of an environment variable. Unknown members are refused. */
export const envEntrySchema: z.ZodType<EnvEntry> = z.strictObject({
  value: z.string(),
  guest: z.boolean().optional(),
  inject: z.record(z.string(), z.unknown()).optional(),
});

/** Body of `POST /v1/claim`. Node API §5.1. */
export interface ClaimRequest extends WirePoolKey {
  /** Lease in seconds; 0 or below asks for the node's default. */
  readonly ttl_seconds?: number | undefined;
  /** Opaque and not unique; `<namespace>/<name>` by convention. */
  readonly claim_ref?: string | undefined;
  readonly metadata?: StringMap | undefined;
  readonly on_expire?: string | undefined;
  /** Answer for this node only, never with a redirect. */
  readonly no_redirect?: boolean | undefined;
  /** Provision from a promoted template only. */
  readonly require_promoted?: boolean | undefined;
  /** `false` closes the guest's way out. */
  readonly egress?: boolean | undefined;
  readonly env?: Readonly<Record<string, EnvEntry>> | undefined;
  readonly volumes?: readonly WireVolume[] | undefined;
  readonly volumes_attach_only?: boolean | undefined;
}

const shared = {
  ttl_seconds: maybe(integerSchema),
  claim_ref: maybe(z.string()),
  metadata: maybe(stringMapSchema),
  on_expire: maybe(z.string()),
  no_redirect: maybe(z.boolean()),
  env: maybe(z.record(z.string(), envEntrySchema)),
};

/** A list of volumes; none reads as absent. */
const volumesSchema = listSchema(wireVolumeSchema).transform((volumes) => (volumes.length === 0 ? undefined : volumes));

/** Shape of a claim. Unknown fields are ignored. A missing template reads as empty, which nodes refuse by name. */
export const claimRequestSchema: z.ZodType<ClaimRequest> = z.object({
  template: maybe(z.string()).transform((template) => template ?? ""),
  net: maybe(z.string()),
  size: maybe(z.string()),
  require_promoted: maybe(z.boolean()),
  egress: maybe(z.boolean()),
  volumes: volumesSchema,
  volumes_attach_only: maybe(z.boolean()),
  ...shared,
});

/** Body of `POST /v1/checkpoints/{id}/claim`. `claim_ref` is honoured by newer nodes only. Node API §8.3. */
export interface CheckpointClaimRequest {
  readonly ttl_seconds?: number | undefined;
  readonly no_redirect?: boolean | undefined;
  readonly metadata?: StringMap | undefined;
  readonly on_expire?: string | undefined;
  readonly env?: Readonly<Record<string, EnvEntry>> | undefined;
  readonly claim_ref?: string | undefined;
}

/** Shape of a checkpoint claim. */
export const checkpointClaimRequestSchema: z.ZodType<CheckpointClaimRequest> = z.object(shared);

/** A delivered sandbox: reply of a claim, and each child of a fork. Node API §5.2. */
export interface ClaimReply {
  readonly id: string;
  /** The sandbox's own token. A secret. */
  readonly token: string;
  /** RFC 3339. */
  readonly deadline: string;
  readonly owner_addr?: string | undefined;
  readonly net_route?: string | undefined;
  readonly template_digest?: string | undefined;
  readonly from_checkpoint?: string | undefined;
  readonly volumes?: readonly WireVolume[] | undefined;
}

/** Shape of a delivered sandbox. */
export const claimReplySchema: z.ZodType<ClaimReply> = z.object({
  id: z.string().min(1),
  token: z.string().min(1),
  deadline: z.string(),
  owner_addr: maybe(z.string()),
  net_route: maybe(z.string()),
  template_digest: maybe(z.string()),
  from_checkpoint: maybe(z.string()),
  volumes: volumesSchema,
});

/** The other 200 of a claim and of a template deletion: ask one of these. Node API §5.3. */
export interface RedirectReply {
  readonly redirect: readonly string[];
  /** Must be copied into the retry. */
  readonly require_promoted?: boolean | undefined;
}

/** Shape of a redirect. */
export const redirectReplySchema: z.ZodType<RedirectReply> = z.object({
  redirect: z.array(z.string()).min(1),
  require_promoted: maybe(z.boolean()),
});
