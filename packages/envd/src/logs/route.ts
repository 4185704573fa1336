import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";

import {
  GUEST_LOGS_TYPE,
  LOG_DIRECTIONS,
  LOG_LEVELS,
  type LogEntry,
  type LogQuery,
  MAX_LOG_LINES,
} from "@org/envd-client";

import { EnvdError } from "../errors.ts";
import type { Exchange } from "../http/reply.ts";
import type { LogRing } from "./log-ring.ts";

const PIECE_CHARS = 64 * 1024;

/** Answers `GET /_sandbox/logs` with one JSON document per line. */
export async function sendLogs({ query, res }: Exchange, ring: LogRing): Promise<void> {
  const entries = ring.read(parseLogQuery(new URLSearchParams(query)));
  res.writeHead(200, { "content-type": GUEST_LOGS_TYPE, "cache-control": "no-store" });
  try {
    await pipeline(Readable.from(documents(entries), { objectMode: true, highWaterMark: 1 }), res);
  } catch {
    // The reader has left.
  }
}

function* documents(entries: readonly LogEntry[]): Generator<string, void> {
  let piece = "";
  for (const entry of entries) {
    piece += `${JSON.stringify(entry)}\n`;
    if (piece.length < PIECE_CHARS) continue;
    yield piece;
    piece = "";
  }
  if (piece !== "") yield piece;
}

/**
 * Reads the query of a page.
 *
 * @throws EnvdError `invalid_argument` naming the parameter
 */
function parseLogQuery(params: URLSearchParams): LogQuery {
  return {
    cursorMs: whole(params, "cursor", Number.MAX_SAFE_INTEGER),
    limit: whole(params, "limit", MAX_LOG_LINES),
    direction: oneOf(params, "direction", LOG_DIRECTIONS),
    level: oneOf(params, "level", LOG_LEVELS),
    search: params.get("search") ?? undefined,
  };
}

function whole(params: URLSearchParams, name: string, max: number): number | undefined {
  const text = params.get(name);
  if (text === null) return undefined;
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Infinity;
  if (value > max) throw new EnvdError("invalid_argument", `${name} must be a whole number from 0 to ${max}`);
  return value;
}

function oneOf<T extends string>(params: URLSearchParams, name: string, known: readonly T[]): T | undefined {
  const text = params.get(name);
  if (text === null) return undefined;
  const found = known.find((value) => value === text);
  if (found === undefined) throw new EnvdError("invalid_argument", `${name} must be one of ${known.join(", ")}`);
  return found;
}
