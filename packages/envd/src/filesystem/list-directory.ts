import { readdir } from "node:fs/promises";
import { posix } from "node:path";

import { errnoOf } from "../errors.ts";
import type { Guest, ResolvedPath } from "../guest/guest.ts";
import { describeEntry, type Entry } from "./entry-info.ts";

/** Files described at the same time: Node's file threads are few. */
const PARALLEL = 16;

/**
 * Lists a directory `depth` levels deep: names in order, each directory before its own entries, inner links not
 * followed. What vanishes meanwhile is left out.
 *
 * @throws the error of reading the directory itself
 */
export async function listDirectory(guest: Guest, root: ResolvedPath, depth: number): Promise<Entry[]> {
  const names = (await readdir(root.host, { withFileTypes: true })).sort((a, b) => compare(a.name, b.name));
  const entries: Entry[] = [];
  for (let at = 0; at < names.length; at += PARALLEL) {
    const batch = names.slice(at, at + PARALLEL).map((item) => ({
      item,
      place: { guest: posix.join(root.guest, item.name), host: posix.join(root.host, item.name) },
    }));
    const described = await Promise.all(batch.map(({ place }) => unlessGone(describeEntry(guest, place))));
    for (const [index, { item, place }] of batch.entries()) {
      const entry = described[index];
      if (entry === undefined) continue;
      entries.push(entry);
      if (depth > 1 && item.isDirectory()) {
        // Not spread into push: a directory may hold more entries than a call may have arguments.
        for (const inner of (await unlessGone(listDirectory(guest, place, depth - 1))) ?? []) entries.push(inner);
      }
    }
  }
  return entries;
}

async function unlessGone<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === "ENOENT" || errno === "ENOTDIR") return undefined;
    throw error;
  }
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
