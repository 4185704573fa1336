import { LOG_LEVELS } from "@org/envd-client";
import type { LogLevel } from "@org/envd-client";

/** One line of a build's log. */
export interface BuildLogEntry {
  /** Milliseconds since 1970. */
  readonly timestampMs: number;
  readonly level: LogLevel;
  readonly message: string;
  /** `base`, the number of a step, or `finalize`. */
  readonly step: string;
}

/** What of a log is asked for. */
export interface BuildLogQuery {
  /** How many lines of this level to pass over. */
  readonly offset: number;
  readonly limit: number;
  readonly level: LogLevel;
}

/** What of a log is asked for by time. */
export interface BuildLogTimeQuery {
  readonly limit: number;
  readonly level: LogLevel;
  readonly direction: "forward" | "backward";
  /** First moment of the page, inclusive. */
  readonly cursorMs: number | undefined;
}

/** The log of one build. */
export interface BuildLog {
  add(level: LogLevel, step: string, message: string): void;
  /** A page; empty behind the end, by which clients know that they have everything. */
  page(query: BuildLogQuery): readonly BuildLogEntry[];
  pageByTime(query: BuildLogTimeQuery): readonly BuildLogEntry[];
  readonly last: BuildLogEntry | undefined;
}

const MAX_MESSAGE_CHARS = 4096;

/** Makes a log that keeps the first `maxLines` lines; the last one also outlives it as `last`. */
export function createBuildLog(maxLines: number, now: () => number): BuildLog {
  const entries: BuildLogEntry[] = [];
  let last: BuildLogEntry | undefined;
  const atLeast = (level: LogLevel): readonly BuildLogEntry[] => {
    const least = LOG_LEVELS.indexOf(level);
    return least === 0 ? entries : entries.filter((entry) => LOG_LEVELS.indexOf(entry.level) >= least);
  };
  return {
    add(level, step, message) {
      const cut = message.length > MAX_MESSAGE_CHARS ? `${message.slice(0, MAX_MESSAGE_CHARS)} … [cut]` : message;
      // Never back in time, so that pages by time skip nothing.
      const timestampMs = Math.max(now(), last?.timestampMs ?? 0);
      last = { timestampMs, level, message: cut, step };
      if (entries.length < maxLines) {
        entries.push(last);
      }
    },
    page: ({ offset, limit, level }) => atLeast(level).slice(offset, offset + limit),
    pageByTime({ limit, level, direction, cursorMs }) {
      const all = atLeast(level);
      return direction === "forward"
        ? all.filter(({ timestampMs }) => timestampMs >= (cursorMs ?? 0)).slice(0, limit)
        : all
            .filter(({ timestampMs }) => timestampMs <= (cursorMs ?? Number.POSITIVE_INFINITY))
            .toReversed()
            .slice(0, limit);
    },
    get last() {
      return last;
    },
  };
}
