import type { IncomingMessage } from "node:http";

import { EnvdError } from "./errors.ts";
import { type GuestState, sameSecret } from "./guest/state.ts";
import { type JsonBody, parseObject, readText, textField, variablesField } from "./http/json-body.ts";

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
  const body = parseInit(await readText(req, MAX_BODY_BYTES));
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
  const body = parseObject(text);
  const accessToken = textField(body, "accessToken");
  if (accessToken?.includes("\\") === true) {
    throw new EnvdError("invalid_argument", "accessToken must not contain a backslash");
  }
  return {
    accessToken: accessToken === "" ? undefined : accessToken,
    envVars: variablesField(body, "envVars"),
    defaultUser: textField(body, "defaultUser") || undefined,
    defaultWorkdir: textField(body, "defaultWorkdir") || undefined,
    timestampNs: timestampField(body),
  };
}

/** RFC 3339 with up to nine digits of a second, which `Date` alone would cut to three. */
function timestampField(body: JsonBody): bigint | undefined {
  const text = textField(body, "timestamp");
  if (text === undefined || text === "") return undefined;
  const found = /^(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d\d:\d\d)$/.exec(text);
  const milliseconds = found === null ? Number.NaN : Date.parse(`${found[1]?.replace(" ", "T")}${found[3]}`);
  if (found === null || Number.isNaN(milliseconds)) {
    throw new EnvdError("invalid_argument", "timestamp must be an RFC 3339 time");
  }
  return BigInt(milliseconds) * 1_000_000n + BigInt((found[2] ?? "").padEnd(9, "0"));
}
