import { createServer, STATUS_CODES, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { DevNodeError } from "../errors.ts";
import type { DevNodeLogger } from "../logger.ts";
import type { Access } from "../node/access.ts";
import type { Node } from "../node/node.ts";
import { Refusal } from "../node/refusal.ts";
import { createDoor } from "./faults-door.ts";
import { playOnRelay, playOnRequest } from "./faults-play.ts";
import { createFaults } from "./faults.ts";
import { checkRelay, openRelay } from "./relay.ts";
import { asRefusal, replyJson, replyText } from "./replies.ts";
import type { Route } from "./route.ts";
import { createRoutes } from "./routes.ts";
import { endGently, Turns } from "./turns.ts";

/** Options of {@link listen}. */
export interface ServerOptions {
  readonly node: Node;
  readonly access: Access;
  readonly address: () => string | undefined;
  /** Tests may order faults over HTTP. */
  readonly faults: boolean;
  readonly logger: DevNodeLogger;
}

/** A listening node. */
export interface NodeServer {
  readonly host: string;
  readonly port: number;
  /** Stops listening, waits up to `graceMs` for running requests, then cuts what is left, relays included. */
  close(graceMs: number): Promise<void>;
}

const HEADERS_TIMEOUT_MS = 5000;
/** How often connections are looked at for that. */
const CHECK_MS = 1000;
/** How long a client may go on sending a body after its answer; a reset at once might take the answer with it. */
const LINGER_MS = 5000;

/** A path that some route has. */
interface Match {
  readonly route?: Route;
  /** Values of the `{}` parts. */
  readonly values: readonly string[];
  /** Methods of the routes with this path. */
  readonly allowed: readonly string[];
}

function splitPath(path: string): string[] | undefined {
  try {
    return path.split("/").map(decodeURIComponent);
  } catch {
    return undefined;
  }
}

/** Finds routes by method and path parts. */
function createRouter(routes: readonly Route[]): (method: string, parts: readonly string[]) => Match {
  const table = routes.map((route) => ({ route, parts: route.path.split("/") }));
  return (method, parts) => {
    const allowed: string[] = [];
    let found: Route | undefined;
    let values: string[] = [];
    for (const entry of table) {
      const fits =
        entry.parts.length === parts.length &&
        entry.parts.every((part, index) => (part === "{}" ? parts[index] !== "" : part === parts[index]));
      if (!fits) {
        continue;
      }
      // A path that is there to be probed alone does not exist for any other method.
      if (entry.route.method !== "HEAD") {
        allowed.push(entry.route.method);
      }
      if (entry.route.method === method || (method === "HEAD" && entry.route.method === "GET")) {
        found = entry.route;
        values = parts.filter((_, index) => entry.parts[index] === "{}");
      }
    }
    return { ...(found === undefined ? {} : { route: found }), values, allowed };
  };
}

/** `[id, port]` when the parts are those of the relay's path. */
function relayParts(parts: readonly string[]): [id: string, port: string] | undefined {
  const [root, version, kind, id, ports, port] = parts;
  return parts.length === 6 &&
    root === "" &&
    version === "v1" &&
    kind === "sandboxes" &&
    ports === "ports" &&
    id &&
    port !== undefined
    ? [id, port]
    : undefined;
}

/** Starts listening. @throws DevNodeError `listen_failed` */
export async function listen(
  bind: { readonly host: string; readonly port: number },
  options: ServerOptions,
): Promise<NodeServer> {
  const { logger } = options;
  const relays = new Set<Socket>();
  const turns = new Turns();
  let closing = false;
  let bound = bind;
  const server: Server = createServer({
    headersTimeout: HEADERS_TIMEOUT_MS,
    connectionsCheckingInterval: CHECK_MS,
    requestTimeout: 0,
    keepAliveTimeout: 0,
    noDelay: true,
  });
  const door = createDoor(server, () => bound, logger);
  const faults = options.faults ? createFaults(options.access, door) : undefined;
  const find = createRouter([...createRoutes(options), ...(faults?.routes ?? [])]);

  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const fault = faults?.take(request.method ?? "GET", splitTarget(request.url ?? "/").pathname);
    await (faults === undefined || fault === undefined
      ? answer(request, response)
      : playOnRequest(faults, fault, { request, response, carryOut: (to) => answer(request, to) }));
  };

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { pathname, search } = splitTarget(request.url ?? "/");
    const parts = splitPath(pathname);
    const method = request.method ?? "GET";
    const relay = parts === undefined ? undefined : relayParts(parts);
    if (relay !== undefined && method === "GET") {
      // Without an upgrade of the connection there is nothing to relay through, but the checks keep their order.
      checkRelay(options, request, ...relay);
      throw new Refusal(426, "upgrade to tcp required", { headers: { Upgrade: "tcp" } });
    }
    const match = parts === undefined ? undefined : find(method, parts);
    if (match?.route !== undefined) {
      await match.route.handle({ request, response, values: match.values, query: new URLSearchParams(search) });
      return;
    }
    const allowed = relay === undefined ? (match?.allowed ?? []) : ["GET"];
    if (allowed.length > 0) {
      const names = [...new Set(allowed.flatMap((name) => (name === "GET" ? ["GET", "HEAD"] : [name])))];
      replyText(response, 405, "Method Not Allowed\n", { Allow: names.join(", ") });
      return;
    }
    replyText(response, 404, "404 page not found\n");
  };

  const failureOf = (request: IncomingMessage): string => {
    const parts = splitPath(splitTarget(request.url ?? "/").pathname);
    return (parts === undefined ? undefined : find(request.method ?? "GET", parts).route?.failure) ?? "internal error";
  };

  server.on("request", (request: IncomingMessage, response: ServerResponse) => {
    response.on("error", () => response.destroy());
    if (turns.isEnding(request.socket)) {
      return;
    }
    turns.add(response);
    response.on("finish", () => {
      if (closing) {
        request.socket.destroySoon();
      } else if (!request.complete) {
        endLate(request);
      }
    });
    serve(request, response).catch((error: unknown) => {
      const refusal = asRefusal(error, failureOf(request));
      if (refusal.status >= 500 && refusal.cause !== undefined) {
        logger.error({ method: request.method, status: refusal.status, err: refusal.cause }, "request failed");
      }
      if (response.headersSent) {
        response.destroy();
        return;
      }
      replyJson(response, refusal.status, { error: refusal.message }, refusal.headers);
      request.resume();
    });
  });
  server.on("upgrade", (request: IncomingMessage, stream: Duplex, head: Buffer) => {
    const client = stream as Socket;
    const onError = (): void => void client.destroy();
    client.on("error", onError);
    const before = turns.last(client);
    if (before === undefined || before.closed) {
      upgrade(request, client, head, onError);
    } else {
      // Its bytes come after those of the answers to what the client asked before.
      before.once("close", () => upgrade(request, client, head, onError));
    }
  });
  const upgrade = (request: IncomingMessage, client: Socket, head: Buffer, onError: () => void): void => {
    const { pathname } = splitTarget(request.url ?? "/");
    const parts = splitPath(pathname);
    const relay = parts === undefined ? undefined : relayParts(parts);
    if (relay === undefined || request.method !== "GET") {
      client.off("error", onError);
      serveAgain(server, request, client, head);
      return;
    }
    relays.add(client);
    client.once("close", () => relays.delete(client));
    const open = async (): Promise<void> => {
      await openRelay(checkRelay(options, request, ...relay), client, head);
    };
    const run = async (): Promise<void> => {
      const fault = faults?.take("GET", pathname);
      if (faults === undefined || fault === undefined) {
        await open();
        return;
      }
      const carryOut = async (): Promise<void> => {
        (await checkRelay(options, request, ...relay).connect(new AbortController().signal)).destroy();
      };
      await playOnRelay(faults, fault, { client, open, carryOut });
    };
    run().catch((error: unknown) => {
      const refusal = asRefusal(error, "sandbox lookup failed");
      if (refusal.status === 500 && !client.destroyed) {
        logger.error({ status: refusal.status, err: refusal.cause }, "relay failed");
      }
      refuseRaw(client, refusal);
    });
  };
  server.on("clientError", ({ code }: NodeJS.ErrnoException, client) => {
    const socket = client as Socket;
    if (!socket.writable || (code?.startsWith("HPE_") !== true && code !== "ERR_HTTP_REQUEST_TIMEOUT")) {
      socket.destroy();
      return;
    }
    const status = code === "HPE_HEADER_OVERFLOW" ? 431 : code === "ERR_HTTP_REQUEST_TIMEOUT" ? 408 : 400;
    turns.fail(socket, code, () => refuseRaw(socket, new Refusal(status, STATUS_CODES[status] ?? "bad request")));
  });
  try {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(bind, () => {
        server.off("error", reject);
        resolve();
      });
    });
  } catch (cause) {
    throw new DevNodeError("listen_failed", `cannot listen on ${bind.host}:${bind.port}`, { cause });
  }
  server.on("error", (error) => logger.error({ err: error }, "listener failed"));
  const { address, port } = server.address() as AddressInfo;
  bound = { host: bind.host, port };
  return {
    host: address,
    port,
    close: async (graceMs) => {
      closing = true;
      door.leave();
      faults?.clear();
      const closed = new Promise<void>((resolve) => {
        server.close(() => resolve());
      });
      server.closeIdleConnections();
      const timer = setTimeout(() => server.closeAllConnections(), graceMs);
      for (const relay of relays) {
        relay.destroy();
      }
      // A listener that is shut already waits for nothing.
      await closed;
      clearTimeout(timer);
      server.closeAllConnections();
    },
  };
}

/** Ends the connection of a client that has its answer and goes on sending the request. */
function endLate(request: IncomingMessage): void {
  const { socket } = request;
  const late = setTimeout(() => socket.destroy(), LINGER_MS);
  const done = (): void => clearTimeout(late);
  request.once("end", done);
  request.once("close", done);
}

/**
 * Answers a request that asks for some other upgrade as if it had not asked, which is every server's right: its head
 * goes back in front of the connection without the wish, and the connection back to the server.
 */
function serveAgain(server: Server, request: IncomingMessage, client: Socket, head: Buffer): void {
  const lines = [`${request.method} ${request.url} HTTP/${request.httpVersion}`];
  for (let index = 0; index + 1 < request.rawHeaders.length; index += 2) {
    const [name = "", value = ""] = [request.rawHeaders[index], request.rawHeaders[index + 1]];
    if (!/^(upgrade|connection)$/i.test(name)) {
      lines.push(`${name}: ${value}`);
    }
  }
  client.unshift(Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1"), head]));
  server.emit("connection", client);
}

/** Path and query of a request target in either form, without the cost and the throws of `URL`. */
function splitTarget(target: string): { readonly pathname: string; readonly search: string } {
  const relative = target.replace(/^https?:\/\/[^/?#]*/i, "");
  const [path = ""] = relative.split("#");
  const at = path.indexOf("?");
  return at === -1 ? { pathname: path, search: "" } : { pathname: path.slice(0, at), search: path.slice(at + 1) };
}

/** An HTTP answer on a connection that has left the HTTP server, and its end. */
function refuseRaw(socket: Socket, refusal: Refusal): void {
  if (socket.destroyed) {
    return;
  }
  const body = `${JSON.stringify({ error: refusal.message })}\n`;
  const lines = [
    `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status] ?? ""}`,
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Connection: close",
    ...Object.entries(refusal.headers).map(([name, value]) => `${name}: ${value}`),
  ];
  endGently(socket, `${lines.join("\r\n")}\r\n\r\n${body}`);
}
