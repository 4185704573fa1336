import assert from "node:assert/strict";

import { Agent, request } from "undici";

/** An answer of a node. */
export interface NodeReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** The body as a JSON object. Throws when it is none. */
  json(): Record<string, unknown>;
}

/** Methods of the node API. */
export type NodeMethod = "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE";

/** What goes with a call. */
export interface NodeCall {
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Sent as it is; for bodies that are no JSON. */
  readonly text?: string;
  /** `null` sends no bearer. @default the root token */
  readonly bearer?: string | null;
}

/** One node by its address. */
export interface NodeClient extends AsyncDisposable {
  /** As it was given: `host:port`, or an origin. */
  readonly address: string;
  readonly origin: URL;
  call(method: NodeMethod, path: string, choices?: NodeCall): Promise<NodeReply>;
}

/** A cold claim may take 90 s on a real node, and a checkpoint longer. */
const REPLY_TIMEOUT_MS = 150_000;

/** The origin behind an address of the node API: `host:port` means `http`. Throws for anything else. */
export function originOf(address: string): URL {
  const text = address.includes("://") ? address : `http://${address}`;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (
    url === undefined ||
    (url.protocol !== "http:" && url.protocol !== "https:") ||
    url.pathname !== "/" ||
    url.search !== "" ||
    url.username !== ""
  ) {
    throw new Error(`${JSON.stringify(address)} is no address of a node: want host:port or http(s)://host[:port]`);
  }
  return url;
}

/** Opens a client; nothing is sent yet. */
export function nodeClient(address: string, token: string | undefined): NodeClient {
  const origin = originOf(address);
  const agent = new Agent({ connectTimeout: 5_000, headersTimeout: REPLY_TIMEOUT_MS, bodyTimeout: REPLY_TIMEOUT_MS });
  return {
    address,
    origin,
    call: async (method, path, choices = {}) => {
      const bearer = choices.bearer === undefined ? token : choices.bearer;
      const body = choices.text ?? (choices.body === undefined ? undefined : JSON.stringify(choices.body));
      const response = await request(`${origin.origin}${path}`, {
        method,
        dispatcher: agent,
        headers: {
          ...(typeof bearer === "string" ? { authorization: `Bearer ${bearer}` } : {}),
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        ...(body === undefined ? {} : { body }),
      });
      const text = await response.body.text();
      return {
        status: response.statusCode,
        headers: response.headers,
        text,
        json: () => objectOf(text, `${method} ${path}`),
      };
    },
    [Symbol.asyncDispose]: () => agent.destroy(),
  };
}

function objectOf(text: string, what: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    assert.fail(`${what}: the body is not JSON: ${text.slice(0, 200)}`);
  }
  assert.ok(typeof value === "object" && value !== null && !Array.isArray(value), `${what}: no object: ${text}`);
  return value as Record<string, unknown>;
}

/** Expects an answer of a status. Throws with the body otherwise. */
export function expectStatus(reply: NodeReply, status: number, what: string): void {
  assert.equal(reply.status, status, `${what}: answered ${reply.status} ${reply.text.slice(0, 300)}`);
}

/** Expects JSON of a status and returns it. */
export function expectJson(reply: NodeReply, status: number, what: string): Record<string, unknown> {
  expectStatus(reply, status, what);
  assert.match(String(reply.headers["content-type"]), /^application\/json/, `${what}: content type`);
  return reply.json();
}

/** Expects an error in the shape of node API §3, with a message that matches. */
export function expectNodeError(reply: NodeReply, status: number, what: string, message: RegExp = /./): void {
  const body = expectJson(reply, status, what);
  assert.match(String(body["error"]), message, `${what}: message`);
}
