import type { CheckpointRecord, PromoteReply } from "./capture.ts";
import { toCount, toText, toTimeText } from "./common.ts";
import type { VolumeInfo } from "./node.ts";
import { isFields, listOf, present, readFields, readKey, unknownKey } from "./readers.ts";
import type { StatsReply } from "./sandbox.ts";

/**
 * Readers of replies about captures and about the node. They accept what the schemas of this entry accept, and more:
 * what older nodes leave out reads as empty, and one unusable element of a list does not hide the others.
 */

/** Reads one checkpoint; `undefined` when it has no id. */
export function readCheckpoint(value: unknown): CheckpointRecord | undefined {
  const record = isFields(value) ? value : {};
  const id = toText(record["id"]);
  return id === undefined
    ? undefined
    : {
        id,
        name: toText(record["name"]),
        sandbox_id: toText(record["sandbox_id"]) ?? "",
        key: readKey(record["key"]) ?? unknownKey,
        tenant: toText(record["tenant"]),
        created_at: toTimeText(record["created_at"]) ?? "",
      };
}

/** Reads the reply of `GET /v1/checkpoints`. @throws WireShapeError */
export function readCheckpoints(value: unknown): readonly CheckpointRecord[] {
  return present(listOf(readFields(value, "the reply")["checkpoints"], "checkpoints"), readCheckpoint);
}

/** Reads the reply of a promotion. @throws WireShapeError */
export function readPromotion(value: unknown): PromoteReply {
  const reply = readFields(value, "the reply");
  return { key: readKey(reply["key"]) ?? unknownKey, content_digest: toText(reply["content_digest"]) ?? "" };
}

/** Reads the reply of `GET /v1/sandboxes/{id}/stats`. @throws WireShapeError */
export function readStats(value: unknown): StatsReply {
  const reply = readFields(value, "the reply");
  return {
    id: toText(reply["id"]) ?? "",
    cpu_count: toCount(reply["cpu_count"]),
    mem_total_bytes: toCount(reply["mem_total_bytes"]),
    mem_used_bytes: toCount(reply["mem_used_bytes"]),
    mem_used_measured: reply["mem_used_measured"] === true,
    hibernated: reply["hibernated"] === true,
    measured_at: toTimeText(reply["measured_at"]) ?? "",
  };
}

function readVolume(value: unknown): VolumeInfo | undefined {
  const volume = isFields(value) ? value : {};
  const name = toText(volume["name"]);
  return name === undefined
    ? undefined
    : {
        name,
        default_mount: toText(volume["default_mount"]) ?? "",
        size_bytes: toCount(volume["size_bytes"]),
        available: volume["available"] === true,
        writable: volume["writable"] === true ? true : undefined,
      };
}

/** Reads the reply of `GET /v1/volumes`. @throws WireShapeError */
export function readVolumes(value: unknown): readonly VolumeInfo[] {
  return present(listOf(readFields(value, "the reply")["volumes"], "volumes"), readVolume);
}
