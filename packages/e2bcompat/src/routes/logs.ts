import type { LogEntry, LogQuery } from "@org/envd-client";
import type { Answer } from "../answer.ts";
import type { Call } from "../call.ts";
import { findSandbox } from "../service.ts";
import type { Service } from "../service.ts";
import type { LogEntryReply, LogLineReply } from "../wire/replies.ts";

function timestampOf({ timestampMs }: LogEntry): string {
  return new Date(timestampMs).toISOString();
}

function lineOf(entry: LogEntry): LogLineReply {
  const { level, logger, message, pid } = entry;
  return { timestamp: timestampOf(entry), line: JSON.stringify({ level, logger, message, pid }) };
}

function entryOf(entry: LogEntry): LogEntryReply {
  const { level, logger, message, pid } = entry;
  return { timestamp: timestampOf(entry), level, message, fields: { logger, pid: String(pid) } };
}

/** A JSON array out of the texts of its items. Long pages are written while they are read, not in one go. */
function arrayOf(items: readonly string[]): string {
  return `[${items.join(",")}]`;
}

/** `GET /sandboxes/{sandboxID}/logs`: every line twice, as older and as newer clients read it. */
export async function logs(service: Service, call: Call, asked: string, query: LogQuery): Promise<Answer> {
  const sandbox = await findSandbox(service, call, asked);
  const lines: string[] = [];
  const entries: string[] = [];
  const complete = await service.guestLogs.read(call, sandbox, query, (entry) => {
    lines.push(JSON.stringify(lineOf(entry)));
    entries.push(JSON.stringify(entryOf(entry)));
  });
  const [older, newer] = complete ? [lines, entries] : [[], []];
  return { status: 200, body: `{"logs":${arrayOf(older)},"logEntries":${arrayOf(newer)}}` };
}

/** `GET /v2/sandboxes/{sandboxID}/logs` */
export async function logsV2(service: Service, call: Call, asked: string, query: LogQuery): Promise<Answer> {
  const sandbox = await findSandbox(service, call, asked);
  const entries: string[] = [];
  const complete = await service.guestLogs.read(call, sandbox, query, (entry) => {
    entries.push(JSON.stringify(entryOf(entry)));
  });
  return { status: 200, body: `{"logs":${arrayOf(complete ? entries : [])}}` };
}
