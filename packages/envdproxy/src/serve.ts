import { createServer as createHttp1Server } from "node:http";
import type { IncomingMessage, Server as Http1Server, ServerResponse } from "node:http";
import { createServer as createHttp2Server } from "node:http2";
import type { Http2Server, ServerHttp2Session, ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { createServer as createTlsServer } from "node:tls";
import type { Server as TlsServer, TLSSocket } from "node:tls";
import { errorBytes } from "./answers.ts";
import type { RequestErrorCode } from "./errors.ts";
import { Http1Turns, isParserError } from "./http1-turns.ts";
import { cutConnection } from "./inbound-http1.ts";
import { resetStream } from "./inbound-http2.ts";
import { LINGER_MS } from "./inbound.ts";
import {
  HTTP2_CONNECTION_WINDOW,
  HTTP2_RESET_BURST,
  HTTP2_RESETS_PER_SECOND,
  HTTP2_SESSION_MEGABYTES,
  HTTP2_STREAM_WINDOW,
  MAX_HEADER_BYTES,
  MAX_HTTP2_FIELDS,
  MAX_HTTP2_STREAMS,
} from "./limits.ts";
import type { Listener } from "./listener.ts";
import { PlainConnection } from "./plain-connection.ts";
import type { ProxyHandler } from "./proxy.ts";
import { sniff } from "./sniff.ts";
import { loadTlsPair, watchTlsPair } from "./tls-pair.ts";
import type { TlsFiles } from "./tls-pair.ts";

/** Options of {@link serve}. Durations are milliseconds. */
export interface ServeOptions {
  /** Begins the drain. */
  readonly signal?: AbortSignal | undefined;
  /** Certificate and key; a changed pair is taken up while serving. Without them the listener speaks cleartext. */
  readonly tls?: TlsFiles | undefined;
  /** How long running requests may take to finish once the drain began. @default 10000 */
  readonly drainTimeoutMs?: number | undefined;
  /** How long a TLS handshake and a request head may take. Bodies and answers have no limit. @default 10000 */
  readonly headTimeoutMs?: number | undefined;
}

const DRAIN_TIMEOUT_MS = 10_000;
const HEAD_TIMEOUT_MS = 10_000;

/** A connection error of HTTP/1.1 as the code of its answer. */
function clientErrorCode(error: Error & { readonly code?: string }): RequestErrorCode {
  if (error.code === "HPE_HEADER_OVERFLOW") {
    return "head_too_large";
  }
  return error.code === "ERR_HTTP_REQUEST_TIMEOUT" ? "head_timeout" : "malformed_request";
}

/** Closes, behind an answer in raw bytes if there is one to give, and leaves the peer a moment to read. */
function answerAndClose(socket: Duplex, code: RequestErrorCode | undefined): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  socket.on("error", () => socket.destroy());
  socket.end(code === undefined ? "" : errorBytes(code, ""));
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once("close", () => clearTimeout(timer));
}

/** Everything that is open, so that a drain can wait for what runs and close what does not. */
class Connections {
  readonly sockets = new Set<Socket>();
  readonly switched = new Set<Duplex>();
  readonly sessions = new Set<ServerHttp2Session>();
  readonly responses = new Map<ServerResponse, Duplex>();
  readonly streams = new Set<ServerHttp2Stream>();
  readonly plain = new Set<PlainConnection>();
  plainRunning = 0;
  /** Connections that have not said what they speak. */
  readonly unknown = new Set<() => void>();
  #idle: (() => void) | undefined;

  /** How many connections speak what. */
  count(): Record<"http1" | "http2" | "switched" | "unknown", number> {
    const http2 = this.sessions.size;
    const switched = this.switched.size;
    const unknown = this.unknown.size;
    return { http1: Math.max(0, this.sockets.size - http2 - switched - unknown), http2, switched, unknown };
  }

  get running(): number {
    return this.responses.size + this.streams.size + this.plainRunning;
  }

  /** To be called after each end of an exchange. */
  ended(): void {
    if (this.running === 0) {
      this.#idle?.();
    }
  }

  /** Resolves when nothing runs any more, or after `timeoutMs`; tells which. */
  async quiet(timeoutMs: number): Promise<boolean> {
    if (this.running === 0) {
      return true;
    }
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), timeoutMs);
      this.#idle = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });
  }
}

/** An HTTP/1.1 server for connections that are handed to it. */
function http1Server(
  handler: ProxyHandler,
  open: Connections,
  turns: Http1Turns,
  headTimeoutMs: number,
  draining: () => boolean,
): Http1Server {
  const server = createHttp1Server({
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: headTimeoutMs,
    // Uploads and streams may take hours; the default of 300 s would answer them with 408.
    requestTimeout: 0,
    // A balancer in front decides how long idle connections are worth keeping.
    keepAliveTimeout: 0,
    connectionsCheckingInterval: Math.max(100, Math.floor(headTimeoutMs / 4)),
    // Node answers a missing host without a body; the router has a better answer.
    requireHostHeader: false,
  });
  server.maxHeadersCount = 0;

  function track(request: IncomingMessage, response: ServerResponse): void {
    open.responses.set(response, request.socket);
    turns.add(response);
    if (draining()) {
      response.shouldKeepAlive = false;
    }
    response.once("close", () => {
      open.responses.delete(response);
      if (draining()) {
        setImmediate(() => server.closeIdleConnections());
      }
      open.ended();
    });
  }
  server.on("request", (request: IncomingMessage, response: ServerResponse) => {
    if (turns.isOver(request.socket)) {
      return;
    }
    track(request, response);
    handler.request(request, response);
  });
  server.on("checkContinue", (request: IncomingMessage, response: ServerResponse) => {
    if (turns.isOver(request.socket)) {
      return;
    }
    track(request, response);
    handler.checkContinue(request, response);
  });
  server.on("checkExpectation", (request: IncomingMessage, response: ServerResponse) => {
    if (turns.isOver(request.socket)) {
      return;
    }
    track(request, response);
    // Node's own answer has no body.
    const bytes = errorBytes("bad_expectation", "Expectation Failed");
    const body = bytes.slice(bytes.indexOf("\r\n\r\n") + 4);
    response.writeHead(417, {
      "Content-Type": "application/json",
      "Content-Length": Buffer.byteLength(body),
      Connection: "close",
    });
    response.end(request.method === "HEAD" ? "" : body);
  });
  function refuseInTurn(socket: Duplex, code: RequestErrorCode): void {
    const owed = turns.owed(socket);
    if (owed !== undefined) {
      turns.keep(socket);
    }
    if (turns.end(socket)) {
      inTurn(owed, socket, () => answerAndClose(socket, code));
    }
  }

  server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    if (!turns.maySwitch(socket)) {
      // Nobody who switches protocols still waits for an answer.
      refuseInTurn(socket, "malformed_request");
      return;
    }
    // A body in front of the switch, or an upgrade to HTTP/2, is an ordinary request that need not be upgraded.
    if (isPlainDespiteUpgrade(request)) {
      replayWithoutUpgrade(server, request, socket as Socket, head);
      return;
    }
    open.switched.add(socket);
    socket.once("close", () => open.switched.delete(socket));
    handler.upgrade(request, socket, head);
  });
  server.on("connect", (_request: IncomingMessage, socket: Duplex) => refuseInTurn(socket, "connect_refused"));
  server.on("clientError", (error: Error & { code?: string }, socket: Duplex) => {
    if (!isParserError(error.code)) {
      socket.destroy();
    } else if (turns.end(socket)) {
      endAfterError(turns, error, socket);
    }
  });
  // Starts the check of head timeouts and the list of idle connections, which belong to listening in Node.
  server.emit("listening");
  return server;
}

/** Goes on once an answer is out, unless that was the last on its connection. */
function inTurn(answer: ServerResponse | undefined, socket: Duplex, next: () => void): void {
  if (answer === undefined || answer.closed) {
    next();
    return;
  }
  // Node's own way to close behind a last answer is reset by what is still unread, and the answer may be lost.
  (socket as Socket).destroySoon = () => answerAndClose(socket, undefined);
  answer.once("close", () => {
    if (!socket.writableEnded) {
      next();
    }
  });
}

/** Ends a connection on which the parser found what is no HTTP, or waited too long for it. */
function endAfterError(turns: Http1Turns, error: Error & { readonly code?: string }, socket: Duplex): void {
  const broken = turns.broken(socket);
  const owed = turns.owed(socket);
  if (broken === undefined && owed !== undefined && error.code === "HPE_INVALID_EOF_STATE") {
    // A client that stops sending has left, whatever it began to ask.
    socket.destroy();
    return;
  }
  inTurn(owed, socket, () => {
    if (broken?.writableEnded === true) {
      // The request was answered before its body broke.
      inTurn(broken, socket, () => answerAndClose(socket, undefined));
    } else if (broken?.headersSent === true) {
      // Text in the middle of an answer would be taken for a part of it.
      cutConnection(broken, socket);
    } else {
      // Nobody asked for an answer to what stands behind a request that is the last by its own words.
      answerAndClose(socket, error.code === "HPE_CLOSED_CONNECTION" ? undefined : clientErrorCode(error));
    }
  });
}

function isPlainDespiteUpgrade(request: IncomingMessage): boolean {
  const { headers } = request;
  const sized = headers["content-length"] !== undefined && headers["content-length"].trim() !== "0";
  return sized || headers["transfer-encoding"] !== undefined || headers.upgrade?.trim().toLowerCase() === "h2c";
}

/** Feeds a request to the server again, without the wish to upgrade. */
function replayWithoutUpgrade(server: Http1Server, request: IncomingMessage, socket: Socket, head: Buffer): void {
  let text = `${request.method} ${request.url} HTTP/${request.httpVersion}\r\n`;
  const { rawHeaders } = request;
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]?.toLowerCase();
    if (name !== "upgrade" && name !== "connection" && name !== "http2-settings") {
      text += `${rawHeaders[i]}: ${rawHeaders[i + 1]}\r\n`;
    }
  }
  socket.pause();
  socket.unshift(Buffer.concat([Buffer.from(`${text}\r\n`, "latin1"), head]));
  server.emit("connection", socket);
  socket.resume();
}

/** An HTTP/2 server for connections that are handed to it. */
function http2Server(
  handler: ProxyHandler,
  open: Connections,
  headTimeoutMs: number,
  draining: () => boolean,
): Http2Server {
  const server = createHttp2Server({
    maxSessionMemory: HTTP2_SESSION_MEGABYTES,
    maxHeaderListPairs: MAX_HTTP2_FIELDS,
    // Beyond this, 64 KiB by default, a guest's head ends the whole connection.
    maxSendHeaderBlockLength: MAX_HEADER_BYTES,
    streamResetBurst: HTTP2_RESET_BURST,
    streamResetRate: HTTP2_RESETS_PER_SECOND,
    settings: {
      initialWindowSize: HTTP2_STREAM_WINDOW,
      maxConcurrentStreams: MAX_HTTP2_STREAMS,
      maxHeaderListSize: MAX_HEADER_BYTES,
    },
  });
  server.on("session", (session) => {
    open.sessions.add(session);
    session.setLocalWindowSize(HTTP2_CONNECTION_WINDOW);
    session.on("error", () => undefined);
    const timer = setTimeout(() => session.destroy(), headTimeoutMs);
    session.once("remoteSettings", () => clearTimeout(timer));
    session.once("close", () => {
      clearTimeout(timer);
      open.sessions.delete(session);
    });
    if (draining()) {
      session.close();
    }
  });
  server.on("sessionError", () => undefined);
  // Connections are half open for raw bytes; an HTTP/2 client that stops sending has left.
  server.on("connection", (socket: Socket) => {
    socket.once("end", () => socket.destroy());
  });
  server.on("stream", (stream, headers, flags, rawHeaders: string[]) => {
    open.streams.add(stream);
    stream.once("close", () => {
      open.streams.delete(stream);
      open.ended();
    });
    handler.stream(stream, headers, flags, rawHeaders);
  });
  return server;
}

async function tlsServer(
  files: TlsFiles,
  handler: ProxyHandler,
  headTimeoutMs: number,
): Promise<{ readonly server: TlsServer; readonly stop: () => void }> {
  const pair = await loadTlsPair(files);
  const server = createTlsServer({
    ...pair,
    ALPNProtocols: ["h2", "http/1.1"],
    minVersion: "TLSv1.2",
    handshakeTimeout: headTimeoutMs,
  });
  server.on("tlsClientError", (_error: Error, socket: TLSSocket) => socket.destroy());
  const stop = watchTlsPair(files, {
    onPair: (next) => {
      server.setSecureContext(next);
      handler.counters.reloads.add("ok");
      handler.logger?.info({ certFile: files.certFile }, "envd-proxy certificate reloaded");
    },
    onError: (error) => {
      handler.counters.reloads.add("failed");
      handler.logger?.warn({ err: error }, "envd-proxy certificate not reloaded");
    },
  });
  return { server, stop };
}

function aborted(signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) {
      resolve();
    } else {
      signal?.addEventListener("abort", () => resolve(), { once: true });
    }
  });
}

function closed(sockets: ReadonlySet<Socket>, timeoutMs: number): Promise<void> {
  if (sockets.size === 0) {
    return Promise.resolve();
  }
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, timeoutMs);
    for (const socket of sockets) {
      socket.once("close", () => {
        if (sockets.size === 0) {
          clearTimeout(timer);
          resolve();
        }
      });
    }
  });
}

/**
 * Serves the data plane on a bound listener until `signal` aborts, then drains: stops accepting, closes idle
 * connections, tells HTTP/2 clients to go elsewhere, lets running requests finish, and cuts what is left after the
 * drain time so that nobody takes it for complete. Switched connections are not waited for. Resolves after that; the
 * listener is closed in any case. Rejects with `tls_files` before the first request when the pair can not be used.
 */
export async function serve(listener: Listener, handler: ProxyHandler, options: ServeOptions = {}): Promise<void> {
  const headTimeoutMs = options.headTimeoutMs ?? HEAD_TIMEOUT_MS;
  const drainTimeoutMs = options.drainTimeoutMs ?? DRAIN_TIMEOUT_MS;
  const { logger } = handler;
  const open = new Connections();
  handler.counters.connections = () => open.count();
  let draining = false;
  let tls: { readonly server: TlsServer; readonly stop: () => void } | undefined;

  try {
    tls = options.tls === undefined ? undefined : await tlsServer(options.tls, handler, headTimeoutMs);
  } catch (error) {
    await listener.close();
    throw error;
  }
  const turns = new Http1Turns();
  const http1 = http1Server(handler, open, turns, headTimeoutMs, () => draining);
  const http2 = http2Server(handler, open, headTimeoutMs, () => draining);

  function serveByNode(socket: Socket): void {
    http1.emit("connection", socket);
    socket.resume();
  }
  /** Serves a connection of HTTP/1.1: here while its requests are plain, then by Node's server. */
  function serveHttp1(socket: Socket): void {
    const connection = new PlainConnection(socket, {
      onRequest: (inbound) => {
        open.plainRunning += 1;
        handler.inbound(inbound);
      },
      onOver: () => {
        open.plainRunning -= 1;
        open.ended();
      },
      onOther: (early) => {
        if (early) {
          turns.early(socket);
        }
        serveByNode(socket);
      },
      onLeft: () => open.plain.delete(connection),
    });
    open.plain.add(connection);
  }
  function begin(socket: Socket): void {
    const giveUp = sniff(socket, headTimeoutMs, (protocol) => {
      open.unknown.delete(giveUp);
      if (protocol === "http2" && tls === undefined) {
        // The session reads what was put back by itself; bytes that flow past it would be lost.
        http2.emit("connection", socket);
      } else if (draining) {
        // Its handshake took until now: its first request is its last.
        serveByNode(socket);
      } else {
        serveHttp1(socket);
      }
    });
    open.unknown.add(giveUp);
    socket.once("close", () => open.unknown.delete(giveUp));
  }
  tls?.server.on("secureConnection", (socket) => {
    socket.on("error", () => undefined);
    if (socket.alpnProtocol === "h2") {
      http2.emit("connection", socket);
    } else {
      begin(socket);
    }
  });

  logger?.info(
    { address: listener.address, tls: tls !== undefined, domain: handler.domain },
    `serving envd-proxy address=${listener.address} tls=${tls !== undefined} domain=${handler.domain}`,
  );
  listener.accept((socket) => {
    open.sockets.add(socket);
    socket.once("close", () => open.sockets.delete(socket));
    if (draining) {
      socket.destroy();
    } else if (tls !== undefined) {
      tls.server.emit("connection", socket);
    } else {
      begin(socket);
    }
  });

  await aborted(options.signal);
  draining = true;
  handler.drain();
  tls?.stop();
  await listener.close();
  for (const giveUp of open.unknown) {
    giveUp();
  }
  for (const session of open.sessions) {
    session.close();
  }
  for (const response of open.responses.keys()) {
    if (!response.headersSent) {
      response.shouldKeepAlive = false;
    }
  }
  for (const connection of open.plain) {
    connection.close();
  }
  http1.closeIdleConnections();

  if (!(await open.quiet(drainTimeoutMs))) {
    logger?.error({ running: open.running, switched: open.switched.size }, "envd-proxy shutdown");
  }
  for (const [response, socket] of open.responses) {
    cutConnection(response, socket);
  }
  for (const connection of open.plain) {
    connection.cut();
  }
  for (const stream of open.streams) {
    resetStream(stream);
  }
  for (const socket of open.switched) {
    socket.destroy();
  }
  http1.closeIdleConnections();
  // Last bytes and resets are on their way; connections that do not close by themselves are closed then.
  await closed(open.sockets, LINGER_MS);
  for (const session of open.sessions) {
    session.destroy();
  }
  for (const socket of open.sockets) {
    socket.destroy();
  }
  http1.close();
  http2.close();
}
