import { type IncomingMessage, request } from "node:http";
import type { Duplex } from "node:stream";

import { EnvdClientError } from "./errors.ts";
import { callGuest, type DialGuest } from "./guest-call.ts";

/** Path of the daemon's own log route. E2B's daemon has neither this path nor any with this prefix. */
export const GUEST_LOGS_PATH = "/_sandbox/logs";

/** Media type of the answer: one JSON document per line, each a {@link LogEntry}. */
export const GUEST_LOGS_TYPE = "application/x-ndjson";

/** Levels from the least to the most severe. Standard output is `info`, standard error is `error`. */
export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;

export type LogLevel = (typeof LOG_LEVELS)[number];

/** `forward` begins with the oldest line, `backward` with the newest. */
export const LOG_DIRECTIONS = ["forward", "backward"] as const;

export type LogDirection = (typeof LOG_DIRECTIONS)[number];

/** Most lines that a daemon keeps, and so the longest answer. */
export const MAX_LOG_LINES = 10_000;

/** What a caller wants to read of the log. */
export interface LogQuery {
  /**
   * First moment of the page, in milliseconds since 1970: inclusive, and going back from there with `backward`. A page
   * ends with a whole millisecond and no later line has a time of an earlier page, so the last line's time plus one
   * (`backward`: minus one) is the next cursor; it neither repeats nor skips a line.
   */
  readonly cursorMs?: number | undefined;
  /** Where to end the page, at the next whole millisecond. Absent means {@link MAX_LOG_LINES}. */
  readonly limit?: number | undefined;
  /** @default "forward" */
  readonly direction?: LogDirection | undefined;
  /** The least severe level. @default "debug" */
  readonly level?: LogLevel | undefined;
  /** Text that a line must have, letter for letter. */
  readonly search?: string | undefined;
}

/** One line of a command's output. */
export interface LogEntry {
  /** Grows from line to line; larger steps than 1 are usual. */
  readonly seq: number;
  /** Milliseconds since 1970. Never decreases from line to line. */
  readonly timestampMs: number;
  readonly level: LogLevel;
  /** Where the line comes from: `process.stdout` or `process.stderr`. */
  readonly logger: string;
  readonly pid: number;
  readonly message: string;
}

/** Options of {@link readGuestLogs}. */
export interface ReadGuestLogsOptions {
  /** What `/init` gave the daemon; absent for a daemon without a token. A secret. */
  readonly accessToken?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /**
   * Time for the whole call, dial included.
   * @default 2000
   */
  readonly timeoutMs?: number | undefined;
}

const MAX_HEADER_BYTES = 16 * 1024;
/** A daemon keeps 1 MiB of output, which JSON may write six times as long. */
const MAX_ANSWER_BYTES = 8 * 1024 * 1024;
const MAX_LINE_BYTES = 128 * 1024;
const NEWLINE = 10;
/** The last moment that a four-digit year can write. */
const LAST_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

/**
 * Reads one page of a guest's log and hands each line to `onEntry`, over one connection that is closed afterwards. The
 * guest is not trusted: time, bytes, lines and the form of every line are bounded. Nothing but the wish to read is
 * lost by an abort. After a failure the lines handed over so far are not to be used.
 *
 * @throws EnvdClientError; `refused` with status 404 is a daemon without a log, `malformed` one that answers otherwise
 */
export async function readGuestLogs(
  dial: DialGuest,
  query: LogQuery,
  onEntry: (entry: LogEntry) => void,
  options: ReadGuestLogsOptions = {},
): Promise<void> {
  const { accessToken, signal, timeoutMs = 2000 } = options;
  const target = `${GUEST_LOGS_PATH}?${queryText(query)}`;
  await callGuest(dial, GUEST_LOGS_PATH, { signal, timeoutMs }, async (connection) => {
    const answer = await ask(connection, target, accessToken);
    await readEntries(answer, onEntry);
  });
}

function queryText({ cursorMs, limit, direction, level, search }: LogQuery): string {
  const params = new URLSearchParams();
  if (cursorMs !== undefined) params.set("cursor", String(cursorMs));
  if (limit !== undefined) params.set("limit", String(limit));
  if (direction !== undefined) params.set("direction", direction);
  if (level !== undefined) params.set("level", level);
  if (search !== undefined) params.set("search", search);
  return params.toString();
}

function ask(connection: Duplex, path: string, accessToken: string | undefined): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const token = accessToken === undefined ? {} : { "x-access-token": accessToken };
    const call = request({
      path,
      host: "localhost",
      headers: { accept: GUEST_LOGS_TYPE, connection: "close", ...token },
      maxHeaderSize: MAX_HEADER_BYTES,
      createConnection: () => connection,
    });
    call.on("error", reject);
    call.on("upgrade", () => reject(malformed("it switched protocols")));
    call.on("response", resolve);
    call.end();
  });
}

function malformed(why: string): EnvdClientError {
  return new EnvdClientError("malformed", `guest did not answer ${GUEST_LOGS_PATH} with a log: ${why}`);
}

async function readEntries(answer: IncomingMessage, onEntry: (entry: LogEntry) => void): Promise<void> {
  if (answer.statusCode !== 200) {
    throw new EnvdClientError("refused", `guest answered ${GUEST_LOGS_PATH} with ${answer.statusCode}`, {
      status: answer.statusCode,
    });
  }
  if (answer.headers["content-type"] !== GUEST_LOGS_TYPE) throw malformed("it has another content type");
  let bytes = 0;
  let lines = 0;
  let rest: Buffer[] = [];
  let restBytes = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES) throw malformed(`it is longer than ${MAX_ANSWER_BYTES} bytes`);
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, from)) {
      const piece = chunk.subarray(from, end);
      from = end + 1;
      lines += 1;
      if (lines > MAX_LOG_LINES) throw malformed(`it has more than ${MAX_LOG_LINES} lines`);
      if (restBytes + piece.length > MAX_LINE_BYTES) throw malformed("a line is too long");
      onEntry(parseEntry(restBytes === 0 ? piece : Buffer.concat([...rest, piece])));
      rest = [];
      restBytes = 0;
    }
    if (from === chunk.length) continue;
    rest.push(chunk.subarray(from));
    restBytes += chunk.length - from;
    if (restBytes > MAX_LINE_BYTES) throw malformed("a line is too long");
  }
  if (restBytes > 0) throw malformed("its last line is not complete");
}

function parseEntry(line: Buffer): LogEntry {
  let value: unknown;
  try {
    value = JSON.parse(line.toString("utf8"));
  } catch {
    throw malformed("a line is not JSON");
  }
  if (!isLogEntry(value)) throw malformed("a line is not a log entry");
  const { seq, timestampMs, level, logger, pid, message } = value;
  return { seq, timestampMs, level, logger, pid, message };
}

function isLogEntry(value: unknown): value is LogEntry {
  if (typeof value !== "object" || value === null) return false;
  const { seq, timestampMs, level, logger, pid, message } = value as Readonly<Record<keyof LogEntry, unknown>>;
  return (
    isCount(seq) &&
    isCount(timestampMs) &&
    timestampMs <= LAST_MS &&
    LOG_LEVELS.some((known) => known === level) &&
    typeof logger === "string" &&
    isCount(pid) &&
    typeof message === "string"
  );
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}
