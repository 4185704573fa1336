import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

/** What of a request is signed. */
export interface SignedRequest {
  readonly method: string;
  /** Path and query as on the wire. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

const hmac = (key: Buffer | string, text: string): Buffer => createHmac("sha256", key).update(text).digest();

function escape(text: string): string {
  return encodeURIComponent(text).replaceAll(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

/**
 * Why the Signature Version 4 of a request is wrong, `undefined` when it is right. Written after Amazon's description of
 * the algorithm, for the header form with an unsigned payload and for presigned addresses.
 */
export function signatureFault(request: SignedRequest, secret: string, nowMs: number): string | undefined {
  const url = new URL(`http://host${request.target}`);
  const presigned = url.searchParams.has("X-Amz-Signature");
  const header = (name: string): string => String(request.headers[name] ?? "");
  const fromHeader = /^AWS4-HMAC-SHA256 Credential=(\S+), ?SignedHeaders=(\S+), ?Signature=(\S+)$/.exec(
    header("authorization"),
  );
  const [credential = "", signedHeaders = "", signature = ""] = presigned
    ? ["X-Amz-Credential", "X-Amz-SignedHeaders", "X-Amz-Signature"].map((name) => url.searchParams.get(name) ?? "")
    : (fromHeader?.slice(1) ?? []);
  const when = presigned ? (url.searchParams.get("X-Amz-Date") ?? "") : header("x-amz-date");
  const at = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(when);
  if (at === null) {
    return "no date";
  }
  const signedMs = Date.parse(`${at[1]}-${at[2]}-${at[3]}T${at[4]}:${at[5]}:${at[6]}Z`);
  const lifeMs = presigned ? Number(url.searchParams.get("X-Amz-Expires")) * 1000 : 900_000;
  if (!(nowMs - signedMs <= lifeMs && signedMs - nowMs <= 900_000)) {
    return "expired";
  }
  url.searchParams.delete("X-Amz-Signature");
  const query = [...url.searchParams]
    .map(([name, value]) => `${escape(name)}=${escape(value)}`)
    .sort()
    .join("&");
  const names = signedHeaders.split(";");
  if (!names.includes("host")) {
    return "the host is not signed";
  }
  const headers = names.map((name) => `${name}:${header(name).trim()}\n`).join("");
  const path = url.pathname
    .split("/")
    .map((part) => escape(decodeURIComponent(part)))
    .join("/");
  const payload = presigned ? "UNSIGNED-PAYLOAD" : header("x-amz-content-sha256");
  const canonical = [request.method, path, query, headers, signedHeaders, payload].join("\n");
  const [, day = "", region = "", service = "", end = ""] = credential.split("/");
  const scope = [day, region, service, end].join("/");
  const digest = createHash("sha256").update(canonical).digest("hex");
  const key = [region, service, end].reduce(hmac, hmac(`AWS4${secret}`, day));
  const right = hmac(key, ["AWS4-HMAC-SHA256", when, scope, digest].join("\n"));
  const given = Buffer.from(signature, "hex");
  return given.length === right.length && timingSafeEqual(given, right) ? undefined : "wrong signature";
}

/** An object store that takes signed requests only. */
export interface S3Server extends AsyncDisposable {
  readonly endpoint: string;
  /** By path, the bucket included. */
  readonly objects: Map<string, Buffer>;
  /** Method, host and path of each request, and what was wrong with its signature. */
  readonly seen: { readonly method: string; readonly host: string; readonly path: string; readonly fault?: string }[];
  /** Answers with this status instead. */
  status: number | undefined;
  nowMs: () => number;
}

export async function startS3Server(secret: string): Promise<S3Server> {
  const objects = new Map<string, Buffer>();
  const seen: S3Server["seen"][number][] = [];
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method = "", url: target = "", headers } = request;
    const path = decodeURIComponent(new URL(target, "http://x").pathname);
    const fault = signatureFault({ method, target, headers }, secret, store.nowMs());
    seen.push({ method, host: headers.host ?? "", path, ...(fault === undefined ? {} : { fault }) });
    const content = await buffer(request);
    if (store.status !== undefined || fault !== undefined) {
      response.writeHead(store.status ?? 403).end();
      return;
    }
    if (method === "PUT") {
      if (headers["content-length"] === undefined) {
        response.writeHead(501).end();
        return;
      }
      objects.set(path, content);
      response.writeHead(200).end();
      return;
    }
    const object = objects.get(path);
    response.writeHead(object === undefined ? 404 : 200).end(method === "HEAD" ? undefined : object);
  };
  const server = createServer((request, response) => void serve(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const store: S3Server = {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    objects,
    seen,
    status: undefined,
    nowMs: Date.now,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
  return store;
}
