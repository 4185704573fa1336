import type { IncomingMessage } from "node:http";

import { EnvdError } from "../errors.ts";

/** A JSON object, its fields not yet looked at. */
export type JsonBody = Readonly<Record<string, unknown>>;

/**
 * The text of a request's body.
 *
 * @throws EnvdError `resource_exhausted` with status 413
 */
export async function readText(req: IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of req.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > maxBytes) {
      throw new EnvdError("resource_exhausted", `body is over the limit of ${maxBytes} bytes`, { status: 413 });
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** @throws EnvdError `invalid_argument` for what is no JSON object */
export function parseObject(text: string): JsonBody {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (error) {
    throw new EnvdError("invalid_argument", "body is not JSON", { cause: error });
  }
  if (!isRecord(body)) throw new EnvdError("invalid_argument", "body must be an object");
  return body;
}

/** An optional text; `null` counts as absent. @throws EnvdError `invalid_argument` */
export function textField(body: JsonBody, name: string): string | undefined {
  const value = body[name] ?? undefined;
  if (value === undefined || typeof value === "string") return value;
  throw new EnvdError("invalid_argument", `${name} must be a string`);
}

/** Optional variables; `null` counts as absent. @throws EnvdError `invalid_argument` */
export function variablesField(body: JsonBody, name: string): Record<string, string> | undefined {
  const value = body[name] ?? undefined;
  if (value === undefined) return undefined;
  if (!isRecord(value)) throw new EnvdError("invalid_argument", `${name} must be an object`);
  const entries = Object.entries(value).map(([key, text]) => {
    if (typeof text !== "string") throw new EnvdError("invalid_argument", `values of ${name} must be strings`);
    if (key === "" || /[=\0]/.test(key) || text.includes("\0")) {
      throw new EnvdError("invalid_argument", `${name} holds a name or value that no environment can hold`);
    }
    return [key, text] as const;
  });
  return Object.fromEntries(entries);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
