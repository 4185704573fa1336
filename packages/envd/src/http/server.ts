import type { Server } from "node:http";
import type { Socket } from "node:net";

import type { Envd } from "../envd.ts";
import { sendProblem } from "./reply.ts";
import { Turns } from "./turns.ts";

/** Idle connections are kept this long, longer than any client in front keeps them. */
const KEEP_ALIVE_MS = 640_000;
const HEADERS_TIMEOUT_MS = 60_000;
/** As much as a proxy in front lets through: cookies and paths can be long. */
const MAX_HEADER_BYTES = 1024 * 1024;

/**
 * A server for the daemon that is not yet listening: no limit on the time of a request or an answer, since commands and
 * uploads take as long as they take, and a JSON body in every answer, those of Node's own parser included.
 */
export function createEnvdServer(envd: Pick<Envd, "listener">): Server {
  const turns = new Turns();
  // An import statement would evaluate all exports of the module, its fetch client included: a third of the start-up time.
  const { createServer } = process.getBuiltinModule("node:http");
  const server = createServer(
    {
      keepAliveTimeout: KEEP_ALIVE_MS,
      requestTimeout: 0,
      headersTimeout: HEADERS_TIMEOUT_MS,
      maxHeaderSize: MAX_HEADER_BYTES,
      noDelay: true,
    },
    (req, res) => {
      if (!turns.isEnding(req.socket)) {
        turns.add(res);
        envd.listener(req, res);
      }
    },
  );
  // Beyond 2000 fields Node would leave the rest out without a word.
  server.maxHeadersCount = 0;
  server.on("checkExpectation", (_req, res) => {
    turns.add(res);
    sendProblem(res, 417, "only 100-continue is supported in Expect");
  });
  server.on("clientError", (error: Error & { code?: string }, socket) => refuse(turns, error.code, socket as Socket));
  return server;
}

function refuse(turns: Turns, code: string | undefined, socket: Socket): void {
  if (!socket.writable || (code?.startsWith("HPE_") !== true && code !== "ERR_HTTP_REQUEST_TIMEOUT")) {
    socket.destroy();
    return;
  }
  const [status, reason, message] =
    code === "HPE_HEADER_OVERFLOW"
      ? [431, "Request Header Fields Too Large", "request headers are too large"]
      : code === "ERR_HTTP_REQUEST_TIMEOUT"
        ? [408, "Request Timeout", "request headers took too long"]
        : [400, "Bad Request", "malformed HTTP request"];
  const body = JSON.stringify({ code: status, message });
  turns.fail(
    socket,
    code,
    `HTTP/1.1 ${status} ${reason}\r\nContent-Type: application/json; charset=utf-8\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}
