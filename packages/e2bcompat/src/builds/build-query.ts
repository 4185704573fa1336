import { LOG_DIRECTIONS, LOG_LEVELS } from "@org/envd-client";
import type { LogLevel } from "@org/envd-client";
import { E2bError } from "../errors.ts";
import type { BuildLogQuery, BuildLogTimeQuery } from "./build-log.ts";

/** Longest page of a build's log. */
const MAX_PAGE_LINES = 100;

function whole(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name);
  if (text === null) {
    return undefined;
  }
  const value = Number(text);
  if (!/^\d{1,16}$/.test(text) || !Number.isSafeInteger(value)) {
    throw new E2bError("bad_request", `${name}: want a whole number that is not negative`);
  }
  return value;
}

function oneOf<T extends string>(query: URLSearchParams, name: string, known: readonly T[]): T | undefined {
  const text = query.get(name);
  const found = known.find((value) => value === text);
  if (text !== null && found === undefined) {
    throw new E2bError("bad_request", `${name}: want ${known.join(", ")}`);
  }
  return found;
}

function common(query: URLSearchParams): { readonly limit: number; readonly level: LogLevel } {
  return {
    limit: Math.min(whole(query, "limit") ?? MAX_PAGE_LINES, MAX_PAGE_LINES),
    level: oneOf(query, "level", LOG_LEVELS) ?? "debug",
  };
}

/** Reads the query of a build's status. Throws `bad_request`. */
export function parseStatusQuery(query: URLSearchParams): BuildLogQuery {
  return { ...common(query), offset: whole(query, "logsOffset") ?? 0 };
}

/** Reads the query of a build's log. Throws `bad_request`. */
export function parseBuildLogsQuery(query: URLSearchParams): BuildLogTimeQuery {
  return {
    ...common(query),
    direction: oneOf(query, "direction", LOG_DIRECTIONS) ?? "forward",
    cursorMs: whole(query, "cursor"),
  };
}
