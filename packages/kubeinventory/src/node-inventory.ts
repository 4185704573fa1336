import type { InventoryEntry, NodeInventory, PoolCapacity, PromotedTemplate } from "@org/scale";
import { EntryList } from "./entry-list.ts";
import { record } from "./errors.ts";
import type { KubeResource } from "./reflector.ts";

/** Where `NodeInventory` objects are in the API. They belong to the cluster and not to a namespace. */
export const NODE_INVENTORIES: KubeResource = Object.freeze({
  group: "sandbox.cocoonstack.io",
  version: "v1beta1",
  plural: "nodeinventories",
});

/**
 * A `NodeInventory` object as the API server stores it: one per node, named after it. It has neither spec nor status.
 * Older versions of the resource know fewer members and drop the rest.
 */
export interface NodeInventoryObject {
  readonly apiVersion?: string | undefined;
  readonly kind?: string | undefined;
  readonly metadata: {
    readonly name: string;
    readonly resourceVersion?: string | undefined;
    readonly creationTimestamp?: string | undefined;
  };
  readonly node: string;
  /** Where the node's API answers: `host:port` or an origin. Empty means not schedulable. */
  readonly address?: string | undefined;
  /** RFC 3339, whole seconds: when the publisher last wrote the object. */
  readonly publishedAt?: string | undefined;
  readonly entries?: readonly InventoryObjectEntry[] | null | undefined;
  readonly pools?: readonly InventoryObjectPool[] | null | undefined;
  readonly templates?: readonly InventoryObjectTemplate[] | null | undefined;
}

/** One sandbox of a `NodeInventory` object. */
export interface InventoryObjectEntry {
  readonly name: string;
  readonly phase: string;
  readonly id?: string | undefined;
  readonly template?: string | undefined;
  readonly claimRef?: string | undefined;
  readonly addr?: string | undefined;
  readonly deadline?: string | undefined;
  readonly claimedAt?: string | undefined;
  /** The caller's metadata as the text of one JSON object. */
  readonly claimMetadata?: string | undefined;
  readonly cpuCount?: number | undefined;
  readonly memoryBytes?: number | undefined;
}

/** One warm pool of a `NodeInventory` object. */
export interface InventoryObjectPool {
  readonly template: string;
  readonly net?: string | undefined;
  readonly size?: string | undefined;
  readonly warm: number;
  readonly target: number;
}

/** One promoted template of a `NodeInventory` object. */
export interface InventoryObjectTemplate {
  readonly template: string;
  readonly net?: string | undefined;
  readonly size?: string | undefined;
  readonly contentDigest: string;
  readonly tenant?: string | undefined;
  readonly createdAt?: string | undefined;
  readonly cpuCount?: number | undefined;
  readonly memoryBytes?: number | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
}

/** Reads the entries of one node's objects. */
export function newEntryList(): EntryList {
  return new EntryList(readEntry);
}

/**
 * Reads an object of unknown origin into a node's view. Absent and unknown members are fine; an entry without a name
 * and a pool or template without a template are left out. `undefined` when the object does not name its node.
 * `asOfMs` is passed on.
 * @param entries what read the node's object before, if any
 */
export function readNodeInventory(
  object: unknown,
  asOfMs: number,
  entries: EntryList = newEntryList(),
): NodeInventory | undefined {
  const fields = record(object);
  const node = nodeNameOf(object);
  if (node === undefined) {
    return undefined;
  }
  return Object.freeze({
    node,
    address: text(fields["address"]) ?? "",
    pools: list(fields["pools"], readPool),
    templates: list(fields["templates"], readTemplate),
    entries: entries.read(fields["entries"]),
    publishedAt: time(fields["publishedAt"]),
    asOfMs,
  });
}

/** The node that an object is of; `undefined` when it does not say so. */
export function nodeNameOf(object: unknown): string | undefined {
  const { metadata, node } = record(object);
  return text(record(metadata)["name"]) ?? text(node);
}

function readEntry(value: unknown): InventoryEntry | undefined {
  const fields = record(value);
  const name = text(fields["name"]);
  if (name === undefined) {
    return undefined;
  }
  return Object.freeze({
    name,
    id: text(fields["id"]) ?? "",
    phase: text(fields["phase"]) ?? "",
    template: text(fields["template"]),
    claimRef: text(fields["claimRef"]),
    addr: text(fields["addr"]),
    deadline: time(fields["deadline"]),
    claimedAt: time(fields["claimedAt"]),
    metadata: metadataOf(fields["claimMetadata"]),
    cpuCount: size(fields["cpuCount"]),
    memoryBytes: size(fields["memoryBytes"]),
  });
}

function readPool(value: unknown): PoolCapacity | undefined {
  const fields = record(value);
  const template = text(fields["template"]);
  if (template === undefined) {
    return undefined;
  }
  return {
    template,
    net: text(fields["net"]),
    size: text(fields["size"]),
    warm: size(fields["warm"]) ?? 0,
    target: size(fields["target"]) ?? 0,
  };
}

function readTemplate(value: unknown): PromotedTemplate | undefined {
  const fields = record(value);
  const template = text(fields["template"]);
  if (template === undefined) {
    return undefined;
  }
  return {
    template,
    net: text(fields["net"]),
    size: text(fields["size"]),
    contentDigest: text(fields["contentDigest"]) ?? "",
    tenant: text(fields["tenant"]) ?? "",
    createdAt: time(fields["createdAt"]),
    cpuCount: size(fields["cpuCount"]),
    memoryBytes: size(fields["memoryBytes"]),
    labels: stringMap(fields["labels"]),
  };
}

function list<T>(value: unknown, read: (item: unknown) => T | undefined): readonly T[] {
  return Object.freeze(Array.isArray(value) ? value.map(read).filter((item) => item !== undefined) : []);
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** A size or a count: not an exact, positive integer reads as absent. */
function size(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : undefined;
}

/** An RFC 3339 time; the zero time of year 1 means none. */
function time(value: unknown): Date | undefined {
  if (typeof value !== "string" || !/^[0-9]{4}-[0-9]{2}-[0-9]{2}T/.test(value)) {
    return undefined;
  }
  const date = new Date(value);
  return Number.isNaN(date.getTime()) || date.getUTCFullYear() <= 1 ? undefined : date;
}

function stringMap(value: unknown): Readonly<Record<string, string>> | undefined {
  const pairs = Object.entries(record(value)).filter((pair): pair is [string, string] => typeof pair[1] === "string");
  return pairs.length === 0 ? undefined : Object.fromEntries(pairs);
}

function metadataOf(value: unknown): Readonly<Record<string, string>> | undefined {
  if (typeof value !== "string" || value === "") {
    return undefined;
  }
  try {
    return stringMap(JSON.parse(value));
  } catch {
    return undefined;
  }
}
