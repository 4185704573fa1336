import assert from "node:assert/strict";

import { request } from "undici";

import type { RigFacts } from "./rig.ts";

/** An answer of one of the surfaces. */
export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

/** A sandbox as create answers it. */
export interface Created {
  readonly sandboxID: string;
  readonly clientID: string;
  readonly templateID: string;
  readonly alias?: string;
  readonly envdAccessToken?: string;
}

/** Methods the suites use. */
export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS" | "HEAD";

/** Calls the control plane of a rig with the key of `ns1`, or with another one, or without (`null`). */
export async function callApi(
  rig: RigFacts,
  method: Method,
  path: string,
  choices: {
    body?: unknown;
    text?: string;
    key?: string | null;
    headers?: Readonly<Record<string, string>>;
  } = {},
): Promise<Reply> {
  const key = choices.key === undefined ? rig.keys.one : choices.key;
  const body = choices.text ?? (choices.body === undefined ? undefined : JSON.stringify(choices.body));
  return call(
    `${rig.apiUrl}${path}`,
    method,
    {
      ...(key === null ? {} : { "x-api-key": key }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...choices.headers,
    },
    body,
  );
}

/** Calls the data plane at an origin. */
export function callProxy(
  origin: string,
  method: Method,
  path: string,
  headers: Readonly<Record<string, string>>,
  body?: string,
): Promise<Reply> {
  return call(`${origin}${path}`, method, headers, body);
}

async function call(
  url: string,
  method: Method,
  headers: Readonly<Record<string, string>>,
  body: string | undefined,
): Promise<Reply> {
  const response = await request(url, { method, headers, ...(body === undefined ? {} : { body }) });
  return { status: response.statusCode, headers: response.headers, text: await response.body.text() };
}

/** Creates a sandbox. Throws the answer when it is not 201. */
export async function createSandbox(rig: RigFacts, body: object = {}, key?: string): Promise<Created> {
  const reply = await callApi(rig, "POST", "/v2/sandboxes", {
    body: { templateID: "base", timeout: 120, ...body },
    ...(key === undefined ? {} : { key }),
  });
  assert.equal(reply.status, 201, `create answered ${reply.status} ${reply.text}`);
  return JSON.parse(reply.text) as Created;
}

/** Kills a sandbox; one that is gone already is fine. */
export async function killSandbox(rig: RigFacts, id: string): Promise<void> {
  const reply = await callApi(rig, "DELETE", `/sandboxes/${id}`);
  assert.ok(reply.status === 204 || reply.status === 404, `kill answered ${reply.status} ${reply.text}`);
}

/** Expects a well-formed error of our surfaces and returns its message. */
export function expectError(reply: Reply, status: number, what: string): string {
  assert.equal(reply.status, status, `${what}: answered ${reply.status} ${reply.text.slice(0, 200)}`);
  let body: { code?: unknown; message?: unknown };
  try {
    body = JSON.parse(reply.text) as { code?: unknown; message?: unknown };
  } catch {
    assert.fail(`${what}: the body is not JSON: ${reply.text.slice(0, 200)}`);
  }
  assert.match(String(reply.headers["content-type"]), /^application\/json/, `${what}: content type`);
  assert.equal(body.code, status, `${what}: code in the body`);
  assert.ok(typeof body.message === "string" && body.message !== "", `${what}: message in the body`);
  return body.message;
}

/** Runs a shell command in a sandbox through the data plane of a rig, or another one. Answers its output. */
export async function runInGuest(
  rig: RigFacts,
  sandbox: Created,
  command: string,
  choices: { user?: string; origin?: string } = {},
): Promise<string> {
  const message = Buffer.from(
    JSON.stringify({ process: { cmd: "/bin/bash", args: ["-l", "-c", command] }, stdin: false }),
  );
  const frame = Buffer.concat([Buffer.from([0, 0, 0, 0, 0]), message]);
  frame.writeUInt32BE(message.length, 1);
  const response = await request(`${choices.origin ?? rig.proxyUrl}/process.Process/Start`, {
    method: "POST",
    headers: {
      "content-type": "application/connect+json",
      "connect-protocol-version": "1",
      "e2b-sandbox-id": sandbox.sandboxID,
      "e2b-sandbox-port": "49983",
      "x-access-token": sandbox.envdAccessToken ?? "",
      authorization: `Basic ${Buffer.from(`${choices.user ?? "user"}:`).toString("base64")}`,
    },
    body: frame,
  });
  const bytes = Buffer.from(await response.body.arrayBuffer());
  assert.equal(response.statusCode, 200, `start answered ${response.statusCode} ${bytes.toString().slice(0, 200)}`);
  return guestOutput(bytes);
}

interface StreamMessage {
  readonly error?: unknown;
  readonly event?: { readonly data?: { readonly stdout?: string; readonly stderr?: string } };
}

/** The output in a complete stream of process events; an error at its end is thrown. */
export function guestOutput(stream: Buffer): string {
  const parts: Buffer[] = [];
  let ended = false;
  for (let at = 0; at + 5 <= stream.length;) {
    const length = stream.readUInt32BE(at + 1);
    const message = JSON.parse(stream.toString("utf8", at + 5, at + 5 + length)) as StreamMessage;
    if (message.error !== undefined) {
      throw new Error(`the command's stream ended with ${JSON.stringify(message.error)}`);
    }
    ended = ((stream[at] ?? 0) & 2) !== 0;
    const data = message.event?.data;
    parts.push(Buffer.from(data?.stdout ?? data?.stderr ?? "", "base64"));
    at += 5 + length;
  }
  if (!ended) {
    throw new Error("the command's stream broke before its end");
  }
  return Buffer.concat(parts).toString();
}
