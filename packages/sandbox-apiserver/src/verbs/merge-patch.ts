import { membersOf } from "./members.ts";

/** Applies a JSON merge patch (RFC 7396): `null` removes, objects merge, everything else replaces. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (typeof patch !== "object" || patch === null || Array.isArray(patch)) {
    return patch;
  }
  const merged = new Map(Object.entries(membersOf(target)));
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) {
      merged.delete(key);
    } else {
      merged.set(key, mergePatch(merged.get(key), value));
    }
  }
  return Object.fromEntries(merged);
}

/** Paths of the members in which two values differ, the outermost that cannot be compared further. */
export function changedFields(before: unknown, after: unknown, path = ""): readonly string[] {
  if (isRecord(before) && isRecord(after)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...keys].flatMap((key) =>
      changedFields(own(before, key), own(after, key), path === "" ? key : `${path}.${key}`),
    );
  }
  return sameJson(before, after) ? [] : [path];
}

/** Whether a value is an object with members. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function own(record: Readonly<Record<string, unknown>>, key: string): unknown {
  return Object.hasOwn(record, key) ? record[key] : undefined;
}

function sameJson(a: unknown, b: unknown): boolean {
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((one, at) => changedFields(one, b[at], ".").length === 0);
  }
  return Object.is(a, b);
}
