import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { joinStreams } from "../shared/join-streams.ts";
import { TunnelRefused, type OpenTunnel } from "./tunnel.ts";

const HOP_BY_HOP = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** An HTTP proxy: `CONNECT host:port`, and plain requests in absolute form. */
export function createHttpDoor(open: OpenTunnel): Server {
  // Only the egress lane pays for the module; an import statement would make every guest evaluate all of it.
  const { createServer } = process.getBuiltinModule("node:http");
  const server = createServer({ requestTimeout: 0, keepAliveTimeout: 60_000 }, (req, res) => {
    forward(open, req, res).catch((error: unknown) => fail(res, error));
  });
  server.on("connect", (req: IncomingMessage, client: Duplex, head: Buffer) => {
    client.on("error", () => client.destroy());
    openConnect(open, req, client, head).catch((error: unknown) => {
      client.end(`HTTP/1.1 ${statusOf(error)}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);
    });
  });
  server.on("clientError", (_, client) => client.destroy());
  return server;
}

async function openConnect(open: OpenTunnel, req: IncomingMessage, client: Duplex, head: Buffer): Promise<void> {
  const match = /^(?:\[([0-9a-fA-F:.%]+)\]|([^:[\]]+)):([0-9]{1,5})$/.exec(req.url ?? "");
  const host = match?.[1] ?? match?.[2];
  if (host === undefined) {
    client.end("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    return;
  }
  const tunnel = await open(host, Number(match?.[3]));
  if (client.destroyed) {
    tunnel.destroy();
    return;
  }
  client.write("HTTP/1.1 200 Connection Established\r\n\r\n");
  if (head.length > 0) {
    client.unshift(head);
  }
  joinStreams(client, tunnel);
}

async function forward(open: OpenTunnel, req: IncomingMessage, res: ServerResponse): Promise<void> {
  const url = URL.canParse(req.url ?? "") ? new URL(req.url ?? "") : undefined;
  if (url === undefined || url.protocol !== "http:") {
    res.writeHead(400, { "Content-Type": "text/plain" }).end("this is a proxy: use an absolute http:// address\n");
    return;
  }
  const named = new Set((req.headers.connection ?? "").toLowerCase().split(/\s*,\s*/));
  const headers: string[] = [];
  for (let index = 0; index + 1 < req.rawHeaders.length; index += 2) {
    const [name = "", value = ""] = [req.rawHeaders[index], req.rawHeaders[index + 1]];
    const lower = name.toLowerCase();
    if (!HOP_BY_HOP.has(lower) && !named.has(lower) && lower !== "host") {
      headers.push(name, value);
    }
  }
  headers.push("Host", url.host, "Connection", "close");
  const tunnel: Socket = await open(url.hostname.replace(/^\[|\]$/g, ""), url.port === "" ? 80 : Number(url.port));
  const upstream = process.getBuiltinModule("node:http").request({
    createConnection: () => tunnel,
    method: req.method,
    path: `${url.pathname}${url.search}`,
    headers,
    setHost: false,
  });
  res.on("close", () => upstream.destroy());
  upstream.on("error", (error) => fail(res, error));
  upstream.on("response", (reply) => {
    const raw: string[] = [];
    for (let index = 0; index + 1 < reply.rawHeaders.length; index += 2) {
      const [name = "", value = ""] = [reply.rawHeaders[index], reply.rawHeaders[index + 1]];
      if (!HOP_BY_HOP.has(name.toLowerCase())) {
        raw.push(name, value);
      }
    }
    reply.on("error", () => res.destroy());
    res.writeHead(reply.statusCode ?? 502, raw);
    reply.pipe(res);
  });
  req.on("error", () => upstream.destroy());
  req.pipe(upstream);
}

function fail(res: ServerResponse, error: unknown): void {
  if (res.headersSent) {
    res.destroy();
    return;
  }
  const denied = error instanceof TunnelRefused && error.reason === "denied";
  res.writeHead(denied ? 403 : 502, { "Content-Type": "text/plain" });
  res.end(denied ? "this destination is not allowed from a sandbox\n" : "the destination does not answer\n");
}

function statusOf(error: unknown): string {
  return error instanceof TunnelRefused && error.reason === "denied" ? "403 Forbidden" : "502 Bad Gateway";
}
