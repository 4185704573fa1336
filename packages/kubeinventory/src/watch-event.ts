import { KubeError, record, statusError } from "./errors.ts";

/** An object as the API server sends it. What is beyond its metadata is for the reader to judge. */
export interface KubeObject {
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string | undefined;
    readonly resourceVersion?: string | undefined;
  };
  readonly [member: string]: unknown;
}

/** One line of a watch. A bookmark only moves the version. */
export type WatchEvent =
  | {
      readonly type: "ADDED" | "MODIFIED" | "DELETED";
      readonly object: KubeObject;
      readonly version: string | undefined;
    }
  | { readonly type: "BOOKMARK"; readonly version: string | undefined };

/**
 * Reads one line of a watch.
 * @param subject names the watch in errors
 * @throws KubeError `status` for an `ERROR` event; `bad_reply` for what is no event, since whatever it was is missed.
 */
export function readWatchEvent(line: string, subject: string): WatchEvent {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    throw new KubeError("bad_reply", `${subject}: a line of the watch is no JSON`, { cause });
  }
  const { type, object } = record(value);
  if (type === "ERROR") {
    throw statusError(subject, object, 500);
  }
  if (type === "BOOKMARK") {
    return { type, version: versionOf(object) };
  }
  if ((type === "ADDED" || type === "MODIFIED" || type === "DELETED") && isKubeObject(object)) {
    return { type, object, version: versionOf(object) };
  }
  throw new KubeError("bad_reply", `${subject}: a line of the watch is no event`);
}

/** Whether a value has a name in its metadata. */
export function isKubeObject(value: unknown): value is KubeObject {
  const { name } = record(record(value)["metadata"]);
  return typeof name === "string" && name !== "";
}

/** The version of an object or a list; `undefined` when it has none. */
export function versionOf(value: unknown): string | undefined {
  const version = record(record(value)["metadata"])["resourceVersion"];
  return typeof version === "string" && version !== "" ? version : undefined;
}

/** What tells an object from others of its resource: `<namespace>/<name>`, or its name when it has no namespace. */
export function keyOf({ metadata: { name, namespace } }: KubeObject): string {
  return namespace === undefined || namespace === "" ? name : `${namespace}/${name}`;
}
