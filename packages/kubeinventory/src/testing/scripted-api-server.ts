import { createServer as createHttpServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createHttpsServer, type ServerOptions } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { text } from "node:stream/consumers";
import type { KubeObject } from "../watch-event.ts";

/** A request as the server got it. */
export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

/** An open watch, to be written to at will. */
export class ScriptedWatch {
  readonly query: Readonly<Record<string, string>>;
  readonly closed: Promise<void>;
  readonly #response: ServerResponse;

  constructor(query: Readonly<Record<string, string>>, response: ServerResponse) {
    this.query = query;
    this.#response = response;
    this.closed = new Promise((resolve) => response.once("close", resolve));
  }

  send(bytes: string | Uint8Array): Promise<void> {
    return new Promise((resolve) => this.#response.write(bytes, () => resolve()));
  }

  event(type: string, object: object): Promise<void> {
    return this.send(eventLine(type, object));
  }

  bookmark(version: string): Promise<void> {
    return this.event("BOOKMARK", { kind: "X", metadata: { resourceVersion: version } });
  }

  end(): void {
    this.#response.end();
  }

  reset(): void {
    this.#response.socket?.resetAndDestroy();
  }
}

/** One line of a watch. */
export function eventLine(type: string, object: object): string {
  return `${JSON.stringify({ type, object })}\n`;
}

/** What the server says instead of the truth, once. */
export type Script = (response: ServerResponse, request: SeenRequest) => void;

/** Answers with a Status. */
export function refuse(code: number, reason: string, headers: Record<string, string> = {}): Script {
  return (response) => {
    response.writeHead(code, { "content-type": "application/json", ...headers });
    response.end(JSON.stringify({ kind: "Status", status: "Failure", code, reason, message: `scripted ${reason}` }));
  };
}

/**
 * An API server with one resource at every path, over real sockets. Lists tell the truth, watches stay open and say what
 * the test says; scripts take the place of answers, one each.
 */
export class ScriptedApiServer implements AsyncDisposable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #watches: ScriptedWatch[] = [];
  readonly #waiting: ((watch: ScriptedWatch) => void)[] = [];
  #port = 0;
  version: number = 1;
  readonly objects: Map<string, KubeObject> = new Map();
  readonly requests: SeenRequest[] = [];
  readonly listScripts: Script[] = [];
  readonly watchScripts: Script[] = [];
  /** Decides over every request before all else. Returns whether it has answered. */
  gate: (response: ServerResponse, request: SeenRequest) => boolean = () => false;

  private constructor(tls: ServerOptions | undefined) {
    const listener = (request: IncomingMessage, response: ServerResponse): void => void this.#serve(request, response);
    this.#server = tls === undefined ? createHttpServer(listener) : createHttpsServer(tls, listener);
    this.#server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.on("error", () => undefined).on("close", () => this.#sockets.delete(socket));
    });
    this.#server.on("tlsClientError", () => undefined);
  }

  static async start(tls?: ServerOptions): Promise<ScriptedApiServer> {
    const server = new ScriptedApiServer(tls);
    await server.listen();
    return server;
  }

  /** Begins to listen; on the port it had before, if it had one. */
  async listen(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(this.#port, "127.0.0.1", resolve);
    });
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  /** Ends at once, with all connections. */
  async die(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#sockets) {
      socket.destroy();
    }
    await closed;
    this.#watches.length = 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#server.listening) {
      await this.die();
    }
  }

  get port(): number {
    return this.#port;
  }

  get url(): string {
    return `http${"setSecureContext" in this.#server ? "s" : ""}://127.0.0.1:${this.#port}`;
  }

  get connections(): number {
    return this.#sockets.size;
  }

  /** Stores an object under a new version, and tells nobody. */
  put(name: string, more: object = {}): KubeObject {
    this.version += 1;
    const object = { ...more, metadata: { name, resourceVersion: String(this.version) } };
    this.objects.set(name, object);
    return object;
  }

  /** The next watch that is opened, or was and nobody asked for it yet. */
  nextWatch(): Promise<ScriptedWatch> {
    const watch = this.#watches.shift();
    return watch === undefined ? new Promise((resolve) => this.#waiting.push(resolve)) : Promise.resolve(watch);
  }

  /** The queries of all lists so far. */
  get lists(): readonly Readonly<Record<string, string>>[] {
    return this.requests.filter(({ query }) => query["watch"] === undefined).map(({ query }) => query);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://x");
    const seen: SeenRequest = {
      method: request.method ?? "",
      path: pathname,
      query: Object.fromEntries(searchParams),
      headers: request.headers,
      body: await text(request).catch(() => ""),
    };
    this.requests.push(seen);
    response.on("error", () => undefined);
    if (this.gate(response, seen)) {
      return;
    }
    const watching = seen.query["watch"] === "true";
    const script = (watching ? this.watchScripts : this.listScripts).shift();
    if (script !== undefined) {
      script(response, seen);
    } else if (watching) {
      this.#open(response, seen);
    } else {
      this.#answer(response, seen);
    }
  }

  #open(response: ServerResponse, { query }: SeenRequest): void {
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    const watch = new ScriptedWatch(query, response);
    const waiting = this.#waiting.shift();
    if (waiting === undefined) {
      this.#watches.push(watch);
    } else {
      waiting(watch);
    }
  }

  #answer(response: ServerResponse, { method, path, body }: SeenRequest): void {
    response.setHeader("content-type", "application/json");
    const name = decodeURIComponent(path.split("/").at(-1) ?? "");
    if (method === "PATCH") {
      response.end(JSON.stringify(this.put(name, JSON.parse(body) as object)));
    } else if (method === "DELETE") {
      const status = this.objects.delete(name) ? 200 : 404;
      refuse(status, status === 404 ? "NotFound" : "")(response, { method, path, body, query: {}, headers: {} });
    } else {
      const items = [...this.objects.values()];
      response.end(JSON.stringify({ kind: "List", metadata: { resourceVersion: String(this.version) }, items }));
    }
  }
}
