import { readFileSync } from "node:fs";

/** Host ids that a guest's ids 0…count-1 become. */
export interface IdRange {
  readonly base: number;
  readonly count: number;
}

/** One line of `/proc/self/uid_map`. */
interface MapLine {
  readonly inner: number;
  readonly count: number;
}

/** Ids per guest: everything up to `nobody`. */
const WIDTH = 65_536;
/** Above the ranges that user management hands to people and containers. */
const FIRST = 0x7000_0000;
const RANGES = 30_000;
/** Below this a guest could not have both `root` (0) and `user` (1000). */
const LEAST = 2000;

/** Reads the ids that this process may give away. */
export function readIdMap(file: string): MapLine[] {
  const lines: MapLine[] = [];
  for (const line of readFileSync(file, "utf8").split("\n")) {
    const [inner, , count] = line.trim().split(/\s+/).map(Number);
    if (inner !== undefined && count !== undefined && count > 0) {
      lines.push({ inner, count });
    }
  }
  return lines;
}

/**
 * The id range of guest number `index`: a range of its own where the machine has the full id space, else (inside a
 * container with few ids) one shared range that leaves out the ids people use. `undefined` when there is no room.
 */
export function idRangeFor(map: readonly MapLine[], index: number): IdRange | undefined {
  const own = FIRST + (index % RANGES) * WIDTH;
  if (map.some((line) => line.inner <= own && line.inner + line.count >= own + WIDTH)) {
    return { base: own, count: WIDTH };
  }
  let best: IdRange | undefined;
  for (const line of map) {
    const base = Math.max(line.inner, 10_000);
    const count = Math.min(line.inner + line.count - base, WIDTH);
    if (count >= LEAST && (best === undefined || count > best.count)) {
      best = { base, count };
    }
  }
  return best;
}

/** The id inside a guest that a host id is; what is not the guest's counts as its root's. */
export function idInside(range: IdRange, id: number): number {
  const inside = id - range.base;
  return inside >= 0 && inside < range.count ? inside : 0;
}
