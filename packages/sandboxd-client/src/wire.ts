/**
 * Bodies of the sandboxd HTTP API: a type and a schema for each, used by the client to read replies and by a
 * development node to read requests and to build replies. Names are the wire's. Schemas check shapes; bounds (name
 * grammars, size limits, known tiers) are the node's business, because its refusals name them.
 */
export {
  countSchema,
  errorReplySchema,
  integerSchema,
  parseWireTime,
  stringMapSchema,
  wirePoolKeySchema,
  wireVolumeSchema,
} from "./wire/common.ts";
export type { ErrorReply, OnExpire, StringMap, WirePoolKey, WireVolume } from "./wire/common.ts";
export {
  checkpointClaimRequestSchema,
  claimReplySchema,
  claimRequestSchema,
  envEntrySchema,
  redirectReplySchema,
} from "./wire/claim.ts";
export type { CheckpointClaimRequest, ClaimReply, ClaimRequest, EnvEntry, RedirectReply } from "./wire/claim.ts";
export {
  fullPoolKeySchema,
  indexReplySchema,
  ownerReplySchema,
  renewReplySchema,
  renewRequestSchema,
  sandboxRowSchema,
  statsReplySchema,
} from "./wire/sandbox.ts";
export type {
  FullPoolKey,
  IndexReply,
  OwnerReply,
  RenewReply,
  RenewRequest,
  SandboxRow,
  StatsReply,
} from "./wire/sandbox.ts";
export {
  checkpointRecordSchema,
  checkpointReplySchema,
  checkpointRequestSchema,
  checkpointsReplySchema,
  forkReplySchema,
  forkRequestSchema,
  instanceMetadataSchema,
  labelsRequestSchema,
  promoteReplySchema,
  promoteRequestSchema,
} from "./wire/capture.ts";
export type {
  CheckpointRecord,
  CheckpointReply,
  CheckpointRequest,
  CheckpointsReply,
  ForkReply,
  ForkRequest,
  InstanceMetadata,
  LabelsRequest,
  PromoteReply,
  PromoteRequest,
} from "./wire/capture.ts";
export {
  infoReplySchema,
  peersReplySchema,
  poolInfoSchema,
  poolsRequestSchema,
  templateInfoSchema,
  volumesReplySchema,
} from "./wire/node.ts";
export type {
  InfoReply,
  PeersReply,
  PoolInfo,
  PoolSpec,
  PoolsRequest,
  TemplateInfo,
  VolumeInfo,
  VolumesReply,
} from "./wire/node.ts";
export { readIndex, readInfo, readSandboxRow, WireShapeError } from "./wire/readers.ts";
