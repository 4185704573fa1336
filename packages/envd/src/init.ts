import type { IncomingMessage } from "node:http";

import { EnvdError } from "./errors.ts";
import { type GuestState, sameSecret } from "./guest/state.ts";

const MAX_BODY_BYTES = 4 * 1024 * 1024;

interface InitRequest {
  readonly accessToken: string | undefined;
  readonly envVars: Readonly<Record<string, string>> | undefined;
  readonly defaultUser: string | undefined;
  readonly defaultWorkdir: string | undefined;
  readonly timestampNs: bigint | undefined;
}

/**
 * Takes the body of `POST /init` into the state: all of it, or nothing.
 *
 * @throws EnvdError `unauthenticated` when a token is set and neither header nor body has it, `invalid_argument` for a
 *   body that cannot be read
 */
export async function applyInit(req: IncomingMessage, state: GuestState): Promise<void> {
  const body = parseInit(await readText(req));
  checkCaller(req, body, state.accessToken);
  if (body.timestampNs !== undefined) {
    if (state.initializedAt !== undefined && body.timestampNs <= state.initializedAt) return;
    state.initializedAt = body.timestampNs;
  }
  state.accessToken = body.accessToken;
  state.userVariables = body.envVars ?? {};
  if (body.defaultUser !== undefined) state.defaultUser = body.defaultUser;
  if (body.defaultWorkdir !== undefined) state.defaultWorkdir = body.defaultWorkdir;
}

function checkCaller(req: IncomingMessage, body: InitRequest, current: string | undefined): void {
  if (current === undefined) return;
  const header = req.headers["x-access-token"];
  const known = [header, body.accessToken].some((token) => typeof token === "string" && sameSecret(token, current));
  if (!known) throw new EnvdError("unauthenticated", "access token does not match the one that is set");
}

function parseInit(text: string): InitRequest {
  if (text.trim() === "") {
    return {
      accessToken: undefined,
      envVars: undefined,
      defaultUser: undefined,
      defaultWorkdir: undefined,
      timestampNs: undefined,
    };
  }
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (error) {
    throw new EnvdError("invalid_argument", "body is not JSON", { cause: error });
  }
  if (!isRecord(body)) throw new EnvdError("invalid_argument", "body must be an object");
  const accessToken = textField(body, "accessToken");
  if (accessToken?.includes("\\") === true) {
    throw new EnvdError("invalid_argument", "accessToken must not contain a backslash");
  }
  return {
    accessToken: accessToken === "" ? undefined : accessToken,
    envVars: variablesField(body),
    defaultUser: textField(body, "defaultUser") || undefined,
    defaultWorkdir: textField(body, "defaultWorkdir") || undefined,
    timestampNs: timestampField(body),
  };
}

function textField(body: Record<string, unknown>, name: string): string | undefined {
  const value = body[name] ?? undefined;
  if (value === undefined || typeof value === "string") return value;
  throw new EnvdError("invalid_argument", `${name} must be a string`);
}

function variablesField(body: Record<string, unknown>): Record<string, string> | undefined {
  const value = body["envVars"] ?? undefined;
  if (value === undefined) return undefined;
  if (!isRecord(value)) throw new EnvdError("invalid_argument", "envVars must be an object");
  const entries = Object.entries(value).map(([name, text]) => {
    if (typeof text !== "string") throw new EnvdError("invalid_argument", "values of envVars must be strings");
    if (name === "" || /[=\0]/.test(name) || text.includes("\0")) {
      throw new EnvdError("invalid_argument", "envVars holds a name or value that no environment can hold");
    }
    return [name, text] as const;
  });
  return Object.fromEntries(entries);
}

/** RFC 3339 with up to nine digits of a second, which `Date` alone would cut to three. */
function timestampField(body: Record<string, unknown>): bigint | undefined {
  const text = textField(body, "timestamp");
  if (text === undefined || text === "") return undefined;
  const found = /^(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d\d:\d\d)$/.exec(text);
  const milliseconds = found === null ? Number.NaN : Date.parse(`${found[1]?.replace(" ", "T")}${found[3]}`);
  if (found === null || Number.isNaN(milliseconds)) {
    throw new EnvdError("invalid_argument", "timestamp must be an RFC 3339 time");
  }
  return BigInt(milliseconds) * 1_000_000n + BigInt((found[2] ?? "").padEnd(9, "0"));
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

async function readText(req: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of req.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > MAX_BODY_BYTES) {
      throw new EnvdError("resource_exhausted", `body is over the limit of ${MAX_BODY_BYTES} bytes`, { status: 413 });
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}
