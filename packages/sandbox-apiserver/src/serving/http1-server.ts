import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { ApiServer } from "../api-server.ts";
import { answerRaw, faultAnswer, type RequestFault } from "./last-words.ts";
import { MAX_HEADER_BYTES, SERVING_TIMES, type ServingTimes } from "./limits.ts";
import type { OpenConnections } from "./open-connections.ts";

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** An HTTP/1.1 server, and what tells the clients it serves that their connections end with their answers. */
export interface Http1Server {
  readonly server: Server;
  readonly announceEnd: () => void;
}

/** An HTTP/1.1 server for connections that are handed to it. */
export function http1Server(
  api: Pick<ApiServer, "listener">,
  open: OpenConnections,
  isEnding: () => boolean,
  times: ServingTimes = SERVING_TIMES,
): Http1Server {
  const server = createServer({
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: times.headMs,
    // Counts until the request is complete. A watch is at once, and its answer may take for ever.
    requestTimeout: times.requestMs,
    keepAliveTimeout: times.idleMs,
    connectionsCheckingInterval: Math.min(2000, times.headMs),
    // The answer of Node has no body.
    requireHostHeader: false,
  });
  // A list that ends early would take groups away from a user.
  server.maxHeadersCount = 0;
  server.timeout = times.stallMs;
  const latest = new WeakMap<Duplex, Exchange>();
  const running = new Set<ServerResponse>();

  function serve(request: IncomingMessage, response: ServerResponse): void {
    // Node hands out what came behind the last request of a connection, which may be a part of its body.
    if (latest.get(request.socket)?.response.shouldKeepAlive === false) {
      return;
    }
    latest.set(request.socket, { request, response });
    const over = open.begin();
    running.add(response);
    response.once("close", () => {
      running.delete(response);
      over();
      if (isEnding()) {
        setImmediate(() => server.closeIdleConnections());
      }
    });
    response.on("error", () => undefined);
    request.on("error", () => undefined);
    if (isEnding()) {
      response.shouldKeepAlive = false;
    }
    const fault = faultOf(request);
    if (fault === undefined) {
      api.listener(request, response).catch(() => response.destroy());
    } else {
      refuse(response, fault);
    }
  }

  server.on("request", serve);
  server.on("checkExpectation", (request: IncomingMessage, response: ServerResponse) => {
    latest.set(request.socket, { request, response });
    refuse(response, "no_expectation");
  });
  server.on("connect", (_request: IncomingMessage, socket: Duplex) => answerRaw(socket, "no_tunnel"));
  server.on("clientError", (error: Error & { readonly code?: string }, socket: Duplex) => {
    const response = latest.get(socket)?.response;
    if (error.code === "ECONNRESET" || (response?.headersSent === true && !response.writableFinished)) {
      // Text in the middle of an answer would be taken for a part of it.
      socket.destroy();
    } else {
      answerRaw(socket, faultOfError(error.code));
    }
  });
  server.on("timeout", (socket: Socket) => {
    const exchange = latest.get(socket);
    // A watch may be quiet, and a request may take long, as long as its client takes what there is.
    const isQuiet =
      exchange !== undefined && exchange.request.complete && !exchange.response.closed && socket.writableLength === 0;
    if (!isQuiet) {
      socket.destroy();
    }
  });
  // Starts the checks of timeouts, which belong to listening in Node.
  server.emit("listening");
  return {
    server,
    announceEnd: () => {
      for (const response of running) {
        if (!response.headersSent) {
          response.shouldKeepAlive = false;
        }
      }
    },
  };
}

function refuse(response: ServerResponse, fault: RequestFault): void {
  const { status, body } = faultAnswer(fault);
  // Says so in the answer, and keeps what stands behind the request from being served.
  response.shouldKeepAlive = false;
  response.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
  response.end(body);
}

/** Why the framing of a request is not relied on: others may have read another one (RFC 9112 §6.1). */
function faultOf({ headers, rawHeaders, httpVersion }: IncomingMessage): RequestFault | undefined {
  const coding = headers["transfer-encoding"]?.trim().toLowerCase();
  if (coding !== undefined && (coding !== "chunked" || httpVersion === "1.0")) {
    return "coding";
  }
  const hosts = rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === "host").length;
  return hosts > 1 || (hosts === 0 && httpVersion === "1.1") ? "malformed" : undefined;
}

function faultOfError(code: string | undefined): RequestFault {
  if (code === "HPE_HEADER_OVERFLOW") {
    return "head_too_large";
  }
  return code === "ERR_HTTP_REQUEST_TIMEOUT" ? "timeout" : "malformed";
}
