import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { formatAddress, parseBindAddress } from "@org/sandbox-address";
import type { Registry } from "prom-client";
import { EnvdProxyError } from "./errors.ts";

/** A server for those who watch the proxy. */
export interface MetricsServer extends AsyncDisposable {
  /** `host:port` with the host as it was asked for and the port in use. */
  readonly address: string;
}

function answerJson(response: ServerResponse, status: number, message: string): void {
  const body = `${JSON.stringify({ code: status, message })}\n`;
  response.writeHead(status, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) });
  response.end(body);
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  { registry, ready }: { readonly registry: Registry; readonly ready: () => boolean },
): Promise<void> {
  const path = request.url?.split("?", 1)[0];
  if (request.method !== "GET" && request.method !== "HEAD") {
    response.setHeader("Allow", "GET, HEAD");
    answerJson(response, 405, "method not allowed");
  } else if (path === "/metrics") {
    const body = await registry.metrics();
    response.writeHead(200, { "Content-Type": registry.contentType, "Content-Length": Buffer.byteLength(body) });
    response.end(body);
  } else if (path === "/healthz" || (path === "/readyz" && ready())) {
    response.writeHead(204).end();
  } else if (path === "/readyz") {
    answerJson(response, 503, "not ready");
  } else {
    answerJson(response, 404, "not found");
  }
}

/**
 * Serves `/metrics`, `/healthz` and `/readyz` on an address of its own: what watches the proxy is none of its clients'
 * business. Rejects with `listen_failed`, naming the address.
 */
export async function serveMetrics(
  address: string,
  watched: { readonly registry: Registry; readonly ready: () => boolean },
): Promise<MetricsServer> {
  const where = parseBindAddress(address);
  const failed = (reason: string, cause?: unknown): EnvdProxyError =>
    new EnvdProxyError("listen_failed", `listen on metrics address ${JSON.stringify(address)}: ${reason}`, { cause });
  if (where === undefined) {
    throw failed("not host:port");
  }
  const server = createServer((request, response) => {
    response.on("error", () => undefined);
    request.resume();
    answer(request, response, watched).catch(() => response.destroy());
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error) => reject(failed(error.message, error)));
    server.listen(where, () => {
      server.removeAllListeners("error");
      resolve();
    });
  });
  server.on("error", () => undefined);
  return {
    address: formatAddress(where.host, (server.address() as AddressInfo).port),
    [Symbol.asyncDispose]: async () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
