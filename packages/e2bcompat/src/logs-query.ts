import { LOG_DIRECTIONS, LOG_LEVELS, MAX_LOG_LINES } from "@org/envd-client";
import type { LogQuery } from "@org/envd-client";
import { E2bError } from "./errors.ts";

const DEFAULT_LIMIT = 1000;
const MAX_LIMIT = 1000;
const MAX_SEARCH_CHARS = 256;
const INT32_MAX = 2_147_483_647;
const INT64_MAX = 9_223_372_036_854_775_807n;

function whole(query: URLSearchParams, name: string, max: bigint): number | undefined {
  const text = query.get(name);
  if (text === null) {
    return undefined;
  }
  if (!/^\d{1,19}$/.test(text) || BigInt(text) > max) {
    throw new E2bError("bad_request", `${name}: want a whole number from 0 to ${max}`);
  }
  // The moments between here and there have not come, so nothing is lost by taking them for one.
  return Math.min(Number(text), Number.MAX_SAFE_INTEGER);
}

function oneOf<T extends string>(query: URLSearchParams, name: string, known: readonly T[]): T | undefined {
  const text = query.get(name);
  const found = known.find((value) => value === text);
  if (text !== null && found === undefined) {
    throw new E2bError("bad_request", `${name}: want ${known.join(", ")}`);
  }
  return found;
}

/** Reads the query of `GET /sandboxes/{sandboxID}/logs`. Without a limit the page has all there is. */
export function parseLogsQuery(query: URLSearchParams): LogQuery {
  const limit = whole(query, "limit", BigInt(INT32_MAX)) ?? MAX_LOG_LINES;
  return { cursorMs: whole(query, "start", INT64_MAX), limit: Math.min(limit, MAX_LOG_LINES) };
}

/** Reads the query of `GET /v2/sandboxes/{sandboxID}/logs`. */
export function parseLogsV2Query(query: URLSearchParams): LogQuery {
  const search = query.get("search") ?? undefined;
  if (search !== undefined && search.length > MAX_SEARCH_CHARS) {
    throw new E2bError("bad_request", `search: want at most ${MAX_SEARCH_CHARS} characters`);
  }
  return {
    cursorMs: whole(query, "cursor", INT64_MAX),
    limit: whole(query, "limit", BigInt(MAX_LIMIT)) ?? DEFAULT_LIMIT,
    direction: oneOf(query, "direction", LOG_DIRECTIONS),
    level: oneOf(query, "level", LOG_LEVELS),
    search,
  };
}
