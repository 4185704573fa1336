import { connect, type ClientHttp2Session } from "node:http2";
import { request } from "node:https";
import type { IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";

import type { KubePair } from "./kube-certificates.ts";

/** Where a call goes, and what it shows of its caller. */
export interface KubeCaller {
  readonly url: string;
  /** Authority of the server's certificate. */
  readonly ca: string;
  /** The client's certificate. */
  readonly pair?: KubePair | undefined;
  readonly token?: string | undefined;
  /** Header lines, in their order; one name may come several times. */
  readonly headers?: readonly (readonly [name: string, value: string])[];
  /** @default false */
  readonly http2?: boolean;
}

/** An answer of an API server. */
export interface KubeAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly text: string;
}

/** One request to the path, with a body for a POST. The connection is its own. */
export async function kubeCall(caller: KubeCaller, path: string, method = "GET", body?: string): Promise<KubeAnswer> {
  return caller.http2 === true ? http2Call(caller, path, method, body) : http1Call(caller, path, method, body);
}

/** As {@link kubeCall}, and the answer is a JSON object. @throws when it has another status */
export async function kubeJson(
  caller: KubeCaller,
  path: string,
  wanted = 200,
  method = "GET",
  body?: string,
): Promise<Record<string, unknown>> {
  const answer = await kubeCall(caller, path, method, body);
  if (answer.status !== wanted) {
    throw new Error(`${method} ${path} answered ${answer.status}: ${answer.text.slice(0, 300)}`);
  }
  return JSON.parse(answer.text) as Record<string, unknown>;
}

/** An open watch: its lines as they come, and its end. */
export interface KubeWatch {
  readonly events: { readonly type: string; readonly object: Record<string, unknown> }[];
  readonly ended: Promise<void>;
  close(): void;
}

/** Opens a watch over HTTP/1.1. @throws when it is refused */
export async function kubeWatch(caller: KubeCaller, path: string): Promise<KubeWatch> {
  const response = await send(caller, path, "GET", undefined);
  if (response.statusCode !== 200) {
    throw new Error(`watch ${path} answered ${response.statusCode}: ${(await text(response)).slice(0, 300)}`);
  }
  const events: KubeWatch["events"] = [];
  let pending = "";
  response.setEncoding("utf8").on("data", (chunk: string) => {
    const lines = (pending + chunk).split("\n");
    pending = lines.pop() ?? "";
    events.push(...lines.filter((line) => line !== "").map((line) => JSON.parse(line) as KubeWatch["events"][number]));
  });
  const ended = new Promise<void>((resolve) => response.once("close", () => resolve()));
  response.on("error", () => undefined);
  return { events, ended, close: () => response.destroy() };
}

function send(
  { url, ca, pair, token, headers = [] }: KubeCaller,
  path: string,
  method: string,
  body: string | undefined,
): Promise<IncomingMessage> {
  const { hostname, port } = new URL(url);
  const lines = [
    ...headers,
    ...(token === undefined ? [] : [["Authorization", `Bearer ${token}`] as const]),
    ...(body === undefined
      ? []
      : [["Content-Type", "application/json"] as const, ["Content-Length", String(Buffer.byteLength(body))] as const]),
  ];
  return new Promise((resolve, reject) => {
    const asked = request(
      {
        hostname,
        port,
        path,
        method,
        ca,
        agent: false,
        ...(pair === undefined ? {} : pair),
        headers: ["Host", `${hostname}:${port}`, ...lines.flat()] as never,
      },
      resolve,
    );
    asked.on("error", reject);
    asked.end(body);
  });
}

async function http1Call(
  caller: KubeCaller,
  path: string,
  method: string,
  body: string | undefined,
): Promise<KubeAnswer> {
  const response = await send(caller, path, method, body);
  return { status: response.statusCode ?? 0, headers: response.headers, text: await text(response) };
}

async function http2Call(
  { url, ca, pair, token, headers = [] }: KubeCaller,
  path: string,
  method: string,
  body: string | undefined,
): Promise<KubeAnswer> {
  const session: ClientHttp2Session = connect(url, { ca, ...(pair === undefined ? {} : pair) });
  session.on("error", () => undefined);
  const repeated: Record<string, string[]> = {};
  for (const [name, value] of headers) {
    (repeated[name.toLowerCase()] ??= []).push(value);
  }
  try {
    const stream = session.request({
      ":path": path,
      ":method": method,
      ...repeated,
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    });
    stream.end(body);
    const answered = await new Promise<Readonly<Record<string, string | string[] | undefined>>>((resolve, reject) => {
      stream.once("response", (found) => resolve(found));
      stream.once("error", reject);
      session.once("error", reject);
    });
    return { status: Number(answered[":status"]), headers: answered, text: await text(stream) };
  } finally {
    session.close();
  }
}
