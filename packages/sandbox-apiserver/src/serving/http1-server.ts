import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { ApiServer } from "../api-server.ts";
import { Http1Turns, type Exchange } from "./http1-turns.ts";
import { answerRaw, endConnection, faultAnswer, type RequestFault } from "./last-words.ts";
import { MAX_HEADER_BYTES, SERVING_TIMES, type ServingTimes } from "./limits.ts";
import type { OpenConnections } from "./open-connections.ts";

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
  const turns = new Http1Turns();
  const running = new Set<Exchange>();

  function serve(request: IncomingMessage, response: ServerResponse): void {
    // Node hands out what came behind the last request of a connection, which may be a part of its body.
    if (turns.isEnding(request.socket)) {
      return;
    }
    const exchange = { request, response };
    turns.add(exchange);
    const over = open.begin();
    running.add(exchange);
    response.once("close", () => {
      running.delete(exchange);
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
    if (!turns.isEnding(request.socket)) {
      turns.add({ request, response });
      refuse(response, "no_expectation");
    }
  });
  server.on("connect", (_request: IncomingMessage, socket: Duplex) => {
    if (turns.isEnding(socket)) {
      return;
    }
    // Node does no more for a connection that it has handed out.
    socket.on("error", () => undefined);
    socket.once("end", () => socket.destroy());
    socket.once("close", () => cutOff(running, socket));
    socket.resume();
    turns.end(socket);
    inTurn(turns.owed(socket), socket, () => answerRaw(socket, "no_tunnel"));
  });
  server.on("clientError", (error: Error & { readonly code?: string }, socket: Duplex) => {
    if (!isParserError(error.code)) {
      socket.destroy();
    } else if (turns.end(socket)) {
      endAfterError(turns, error.code, socket);
    }
  });
  server.on("timeout", (socket: Socket) => {
    const exchange = turns.latest(socket);
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
      for (const { request, response } of running) {
        // Answers behind one that ends its connection would be lost.
        if (!response.headersSent && turns.latest(request.socket)?.response === response) {
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
  lingerAtEnd(response.req.socket);
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

function isParserError(code: string | undefined): boolean {
  return code?.startsWith("HPE_") === true || code === "ERR_HTTP_REQUEST_TIMEOUT";
}

function faultOfError(code: string | undefined): RequestFault {
  if (code === "HPE_HEADER_OVERFLOW") {
    return "head_too_large";
  }
  return code === "ERR_HTTP_REQUEST_TIMEOUT" ? "timeout" : "malformed";
}

/** Node's own way to close behind a last answer is reset by what is still unread, and the answer may be lost. */
function lingerAtEnd(socket: Socket): void {
  socket.destroySoon = () => endConnection(socket, "");
}

/** Goes on once an answer is out, unless that was the last on its connection. */
function inTurn(answer: ServerResponse | undefined, socket: Duplex, next: () => void): void {
  if (answer === undefined || answer.closed) {
    next();
    return;
  }
  lingerAtEnd(answer.req.socket);
  answer.once("close", () => {
    if (!socket.writableEnded) {
      next();
    }
  });
}

/** Ends a connection on which the parser found what is no HTTP, or waited too long for it. */
function endAfterError(turns: Http1Turns, code: string | undefined, socket: Duplex): void {
  const broken = turns.broken(socket);
  const owed = turns.owed(socket);
  if (broken === undefined && owed !== undefined && code === "HPE_INVALID_EOF_STATE") {
    // A client that stops sending has left, whatever it began to ask.
    socket.destroy();
    return;
  }
  inTurn(owed, socket, () => {
    if (broken?.writableEnded === true) {
      // The request was answered before its body broke.
      inTurn(broken, socket, () => endConnection(socket, ""));
    } else if (broken?.headersSent === true) {
      // Text in the middle of an answer would be taken for a part of it.
      socket.destroy();
    } else if (code === "HPE_CLOSED_CONNECTION") {
      // Nobody asked for an answer to what stands behind a request that is the last by its own words.
      endConnection(socket, "");
    } else {
      answerRaw(socket, faultOfError(code));
    }
  });
}

/** Ends what is still answered on a connection that is closed. */
function cutOff(running: ReadonlySet<Exchange>, socket: Duplex): void {
  for (const { request, response } of running) {
    if (request.socket === socket) {
      response.destroy();
    }
  }
}
