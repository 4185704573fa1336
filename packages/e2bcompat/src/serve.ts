import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { getRequestListener } from "@hono/node-server";
import type { Logger } from "@org/scale";
import { formatAddress, parseBindAddress } from "@org/sandbox-address";
import { failure, toResponse } from "./answer.ts";
import type { Answer } from "./answer.ts";
import { DIRECT } from "./call.ts";
import type { Direct } from "./call.ts";
import { E2bError } from "./errors.ts";
import { endAnswer } from "./last-words.ts";
import { Turns } from "./turns.ts";

/** Serves a request that came through our own listener. */
type ServeFetch = (request: Request, env: object) => Response | Promise<Response>;

/** Options of a listener's life. */
export interface ServeOptions {
  /** Ends the service: no new connections, requests in flight finish. */
  readonly signal: AbortSignal;
  /** Called once, with the bound address. */
  readonly onListening?: ((address: AddressInfo) => void) | undefined;
}

interface Listening {
  readonly fetch: ServeFetch;
  readonly logger: Logger;
  readonly drainTimeoutMs: number;
  readonly bodyIdleTimeoutMs: number;
  /** For the start line. */
  readonly describe: { readonly namespace: string; readonly authenticated: boolean };
  /** Work that outlives its requests and that a shutdown waits for a while. */
  readonly settled: () => Promise<void>;
}

/** Longer than clients keep idle connections (300 s), so that they never write into a connection that we close. */
const KEEP_ALIVE_MS = 310_000;
const HEADERS_TIMEOUT_MS = 10_000;
/** Clients encode a metadata filter three times: 4 KiB of metadata, as much as a sandbox has, are 28 KiB then. */
const MAX_HEADER_BYTES = 65_536;
const DRAIN_CHECK_MS = 50;
/** How long connections that wait are taken at most when the drain begins. */
const TAKE_MS = 250;
/** No connection for so long means that none is waiting. */
const QUIET_MS = 10;
/** What releases of sandboxes that were cut off get at least, on top of the drain. */
const RELEASE_GRACE_MS = 2000;

const STATUS_TEXT: Readonly<Record<number, string>> = {
  400: "Bad Request",
  405: "Method Not Allowed",
  408: "Request Timeout",
  417: "Expectation Failed",
  431: "Request Header Fields Too Large",
};

/** An answer to what the HTTP parser did not hand out, as bytes. */
function rawRefusal(status: number, message: string): string {
  const body = failure(status, message).body ?? "";
  return (
    `HTTP/1.1 ${status} ${STATUS_TEXT[status] ?? "Error"}\r\nContent-Type: application/json\r\n` +
    `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`
  );
}

/** What is said about what the parser found. */
function parserRefusal(code: string | undefined): string {
  if (code === "HPE_HEADER_OVERFLOW") {
    return rawRefusal(431, "the request headers are too large");
  }
  return code === "ERR_HTTP_REQUEST_TIMEOUT"
    ? rawRefusal(408, "the request headers took too long")
    : rawRefusal(400, "malformed HTTP request");
}

function onClientError(turns: Turns, { code }: Error & { readonly code?: string }, socket: Duplex): void {
  const ofParser = code?.startsWith("HPE_") === true || code === "ERR_HTTP_REQUEST_TIMEOUT";
  const broken = turns.broken(socket);
  // A client that stops sending has left, whatever it began to ask behind its request.
  const left = code === "HPE_INVALID_EOF_STATE" && broken === undefined && turns.owed(socket) !== undefined;
  if (!ofParser || left || !socket.writable) {
    socket.destroy();
    return;
  }
  turns.end(socket, () => {
    // Nobody asked for an answer to what stands behind a request that is the last by its own words, and a body that
    // breaks behind the answer to its request changes nothing.
    const silent = code === "HPE_CLOSED_CONNECTION" || broken?.headersSent === true;
    return silent ? "" : parserRefusal(code);
  });
}

function refuse(incoming: IncomingMessage, outgoing: ServerResponse, answer: Answer): void {
  const { status, body = "" } = answer;
  const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
  outgoing.writeHead(status, { ...headers, connection: "close" });
  endAnswer(incoming, outgoing, body);
}

/**
 * Why a request's framing is not relied on: others may have read another one (RFC 9112 §6.1), or its body is coded.
 * `undefined` when nothing is wrong with it.
 */
function framingFault({ headers, httpVersionMajor, httpVersion }: IncomingMessage): Answer | undefined {
  const coding = headers["transfer-encoding"]?.trim().toLowerCase();
  if (httpVersionMajor !== 1) {
    return failure(400, "malformed HTTP request");
  }
  if (coding === undefined || (coding === "chunked" && httpVersion !== "1.0")) {
    return undefined;
  }
  return failure(501, "only the chunked transfer encoding is supported");
}

/** Makes the HTTP server, not yet listening. Every error it can answer has a JSON body. */
function makeServer({ fetch, bodyIdleTimeoutMs }: Listening, closing: () => boolean): Server {
  const listener = getRequestListener(
    (request, env) => {
      const { incoming, outgoing } = env as { readonly incoming: IncomingMessage; readonly outgoing: ServerResponse };
      const direct: Direct = { incoming, outgoing, bodyIdleTimeoutMs, closing };
      return fetch(request, { incoming, outgoing, [DIRECT]: direct });
    },
    {
      overrideGlobalObjects: false,
      hostname: "localhost",
      errorHandler: () => toResponse(failure(400, "malformed request target or host")),
    },
  );
  const turns = new Turns();
  const server = createServer(
    {
      headersTimeout: HEADERS_TIMEOUT_MS,
      maxHeaderSize: MAX_HEADER_BYTES,
      // A slow client may take its time with its body; one that stops is noticed while the body is read.
      requestTimeout: 0,
      keepAliveTimeout: KEEP_ALIVE_MS,
      connectionsCheckingInterval: 2000,
      // The default answer to a request without Host has no body.
      requireHostHeader: false,
    },
    (incoming, outgoing) => {
      if (turns.isEnding(incoming.socket)) {
        return;
      }
      turns.add(outgoing);
      const fault = framingFault(incoming);
      if (fault !== undefined) {
        // What Node reads behind a request of unclear framing may be a part of its body.
        turns.endWith(outgoing);
        refuse(incoming, outgoing, fault);
        return;
      }
      if (incoming.headers.host === undefined && incoming.httpVersion === "1.1") {
        refuse(incoming, outgoing, failure(400, "the Host header is missing"));
        return;
      }
      listener(incoming, outgoing).catch(() => outgoing.destroy());
    },
  );
  server.on("clientError", (error: Error & { code?: string }, socket: Duplex) => onClientError(turns, error, socket));
  server.on("checkExpectation", (incoming: IncomingMessage, outgoing: ServerResponse) => {
    if (!turns.isEnding(incoming.socket)) {
      turns.add(outgoing);
      refuse(incoming, outgoing, failure(417, "only the expectation 100-continue is supported"));
    }
  });
  server.on("connect", (_incoming: IncomingMessage, socket: Duplex) => {
    turns.keep(socket);
    turns.end(socket, () => rawRefusal(405, "method not allowed"));
  });
  return server;
}

async function listen(server: Server, address: string): Promise<AddressInfo> {
  const parsed = parseBindAddress(address);
  if (parsed === undefined) {
    throw new E2bError("listen_failed", `listen on e2b address ${JSON.stringify(address)}: not host:port`);
  }
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", reject);
  server.listen(parsed, resolve);
  try {
    await promise;
  } catch (error) {
    const reason = error instanceof Error ? error.message : "failed";
    throw new E2bError("listen_failed", `listen on e2b address ${JSON.stringify(address)}: ${reason}`, {
      cause: error,
    });
  } finally {
    server.off("error", reject);
  }
  const bound = server.address();
  if (bound === null || typeof bound === "string") {
    throw new E2bError("listen_failed", `listen on e2b address ${JSON.stringify(address)}: no TCP address`);
  }
  return bound;
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve();
    } else {
      signal.addEventListener("abort", () => resolve(), { once: true });
    }
  });
}

/**
 * Takes the connections that the system holds for us: closing the listener would reset them, and their requests with
 * them. The loop takes one at a turn.
 */
async function takeWaiting(server: Server): Promise<void> {
  const end = performance.now() + TAKE_MS;
  let taken = 0;
  const count = (): void => {
    taken += 1;
  };
  server.on("connection", count);
  let before = -1;
  while (before !== taken && performance.now() < end) {
    before = taken;
    await sleep(QUIET_MS);
    // A busy loop comes here without having looked for connections.
    await nextTurn();
    await nextTurn();
  }
  server.off("connection", count);
}

/** Lets requests in flight finish within the time, then cuts what is left. Resolves with how many were cut. */
async function drain(server: Server, sockets: ReadonlySet<Socket>, timeoutMs: number): Promise<number> {
  await takeWaiting(server);
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  let cut = 0;
  const idle = setInterval(() => {
    server.closeIdleConnections();
    for (const socket of sockets) {
      // Connections that never sent anything are not idle in the server's eyes. Not at once: a request that has arrived
      // may still wait to be read.
      if (socket.bytesRead === 0) {
        socket.destroy();
      }
    }
  }, DRAIN_CHECK_MS);
  const end = setTimeout(() => {
    cut = sockets.size;
    server.closeAllConnections();
    // The server forgets connections that have left HTTP, and would wait for them for ever.
    for (const socket of sockets) {
      socket.destroy();
    }
  }, timeoutMs);
  await closed;
  clearInterval(idle);
  clearTimeout(end);
  // The server counts connections off before they say so themselves, and only then their requests know that they ended.
  await Promise.all([...sockets].map((socket) => new Promise((resolve) => socket.once("close", resolve))));
  return cut;
}

/**
 * Listens, serves until the signal aborts, drains, and resolves. Rejects with `listen_failed` when the address cannot
 * be had. Resolves at once when the signal is aborted already.
 */
export async function serveHttp(listening: Listening, address: string, options: ServeOptions): Promise<void> {
  const { logger, drainTimeoutMs } = listening;
  const { signal, onListening } = options;
  if (signal.aborted) {
    return;
  }
  const server = makeServer(listening, () => signal.aborted);
  const sockets = new Set<Socket>();
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  const bound = await listen(server, address);
  // A listener reports connections that it could not take, such as when descriptors run out. It goes on listening.
  server.on("error", (error) => logger.error({ err: error }, "e2b-compatible API could not accept a connection"));
  const shown = formatAddress(bound.address, bound.port);
  const { namespace, authenticated } = listening.describe;
  logger.info(
    { func: "e2bcompat.Serve", address: shown, namespace, authenticated },
    `serving e2b-compatible API address=${shown} namespace=${namespace} authenticated=${authenticated}`,
  );
  onListening?.(bound);
  await untilAborted(signal);
  const begin = performance.now();
  const cut = await drain(server, sockets, drainTimeoutMs);
  if (cut > 0) {
    logger.error({ connections: cut }, "e2b-compatible API server shutdown");
  }
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, Math.max(RELEASE_GRACE_MS, drainTimeoutMs - (performance.now() - begin)));
  await Promise.race([listening.settled(), late]);
  clearTimeout(timer);
}
