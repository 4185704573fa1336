import { toCount, toSize, toText, toTimeText, type StringMap, type WireVolume } from "./common.ts";
import type { InfoReply, PoolInfo, TemplateInfo } from "./node.ts";
import type { FullPoolKey, SandboxRow } from "./sandbox.ts";

/**
 * Readers of the two replies that a poller reads every few seconds, for thousands of rows. They accept what the
 * schemas of this entry accept and are written by hand because a schema costs several times as much per row.
 * Elements that cannot be used at all (a row without an id, a pool without a template) are left out: one bad row must
 * not hide a whole node.
 */

/** Members of a JSON object. */
export type Fields = Readonly<Record<string, unknown>>;

/** Thrown by the readers when the reply as a whole is not what the route answers. */
export class WireShapeError extends Error {
  override readonly name = "WireShapeError";
}

/** Whether a value is a JSON object. */
export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The members of what must be an object. @throws WireShapeError naming `what` */
export function readFields(value: unknown, what: string): Fields {
  if (!isFields(value)) {
    throw new WireShapeError(`${what} is not an object`);
  }
  return value;
}

/** The elements of what must be a list; `null` and absent are the empty one. @throws WireShapeError naming `name` */
export function listOf(value: unknown, name: string): readonly unknown[] {
  if (value === undefined || value === null) {
    return [];
  }
  if (!Array.isArray(value)) {
    throw new WireShapeError(`${name} is not a list`);
  }
  return value;
}

/** Reads a pool key; `undefined` without a template. */
export function readKey(value: unknown): FullPoolKey | undefined {
  if (!isFields(value) || typeof value["template"] !== "string") {
    return undefined;
  }
  return { template: value["template"], net: toText(value["net"]) ?? "none", size: toText(value["size"]) ?? "small" };
}

function readStringMap(value: unknown): StringMap | undefined {
  if (!isFields(value)) {
    return undefined;
  }
  const names = Object.keys(value);
  return names.length > 0 && names.every((name) => typeof value[name] === "string") ? (value as StringMap) : undefined;
}

function readVolumes(value: unknown): readonly WireVolume[] | undefined {
  if (!Array.isArray(value) || value.length === 0) {
    return undefined;
  }
  const volumes: WireVolume[] = [];
  for (const item of value) {
    if (isFields(item) && typeof item["name"] === "string") {
      volumes.push({ name: item["name"], mount: toText(item["mount"]), mode: toText(item["mode"]) });
    }
  }
  return volumes.length === 0 ? undefined : volumes;
}

/** Stands in for a key that cannot be read. */
export const unknownKey: FullPoolKey = { template: "", net: "none", size: "small" };

/** Reads one row of the index or of the by-id read; `undefined` when it has no id. */
export function readSandboxRow(value: unknown): SandboxRow | undefined {
  if (!isFields(value)) {
    return undefined;
  }
  const id = toText(value["id"]);
  if (id === undefined) {
    return undefined;
  }
  return {
    id,
    key: readKey(value["key"]) ?? unknownKey,
    tenant: toText(value["tenant"]),
    deadline: toTimeText(value["deadline"]),
    claimed_at: toTimeText(value["claimed_at"]),
    hibernated: value["hibernated"] === true,
    archived: value["archived"] === true ? true : undefined,
    from_checkpoint: toText(value["from_checkpoint"]),
    claim_ref: toText(value["claim_ref"]),
    on_expire: toText(value["on_expire"]),
    metadata: readStringMap(value["metadata"]),
    cpu_count: toSize(value["cpu_count"]),
    mem_total_bytes: toSize(value["mem_total_bytes"]),
    volumes: readVolumes(value["volumes"]),
    restarts: toSize(value["restarts"]),
    restarted_at: toTimeText(value["restarted_at"]),
    failed: toText(value["failed"]),
    token: toText(value["token"]),
  };
}

/** Reads the reply of `GET /v1/sandboxes`. @throws WireShapeError */
export function readIndex(value: unknown): readonly SandboxRow[] {
  const rows: SandboxRow[] = [];
  for (const item of listOf(readFields(value, "the index")["sandboxes"], "sandboxes")) {
    const row = readSandboxRow(item);
    if (row !== undefined) {
      rows.push(row);
    }
  }
  return rows;
}

function readPool(value: unknown): PoolInfo | undefined {
  const key = isFields(value) ? readKey(value["key"]) : undefined;
  if (key === undefined || !isFields(value)) {
    return undefined;
  }
  return {
    key,
    warm: toCount(value["warm"]),
    refilling: toCount(value["refilling"]),
    target: toCount(value["target"]),
    golden: value["golden"] === true,
  };
}

function readTemplate(value: unknown): TemplateInfo | undefined {
  const key = isFields(value) ? readKey(value["key"]) : undefined;
  if (key === undefined || !isFields(value)) {
    return undefined;
  }
  return {
    key,
    content_digest: toText(value["content_digest"]) ?? "",
    tenant: toText(value["tenant"]),
    created_at: toTimeText(value["created_at"]),
    cpu_count: toSize(value["cpu_count"]),
    mem_total_bytes: toSize(value["mem_total_bytes"]),
    labels: readStringMap(value["labels"]),
  };
}

/** What `read` makes of the elements, without those it makes nothing of. */
export function present<T>(items: readonly unknown[], read: (item: unknown) => T | undefined): readonly T[] {
  return items.map(read).filter((item) => item !== undefined);
}

/** Reads a list of addresses; what is not text is left out. @throws WireShapeError */
export function readAddresses(value: unknown, name: string): readonly string[] {
  return present(listOf(value, name), toText);
}

/** Reads the reply of `GET /v1/info`. @throws WireShapeError */
export function readInfo(value: unknown): InfoReply {
  const info = readFields(value, "the info reply");
  return {
    pools: present(listOf(info["pools"], "pools"), readPool),
    templates: present(listOf(info["templates"], "templates"), readTemplate),
    claimed: toCount(info["claimed"]),
    hibernated: toCount(info["hibernated"]),
    archived: toCount(info["archived"]),
    failed: toSize(info["failed"]),
    draining: info["draining"] === true ? true : undefined,
    advertise_addr: toText(info["advertise_addr"]),
    peers: readAddresses(info["peers"], "peers"),
    at_capacity: info["at_capacity"] === true ? true : undefined,
    at_capacity_reason: toText(info["at_capacity_reason"]),
  };
}
