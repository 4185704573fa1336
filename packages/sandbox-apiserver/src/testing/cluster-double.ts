import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { json } from "node:stream/consumers";
import { KubeClient } from "@org/kubeinventory/client";

/** Answers a review over the network. */
export type Reviewer = (spec: Readonly<Record<string, unknown>>, response: ServerResponse) => object | undefined;

/**
 * An API server over real sockets with the ConfigMap of client authentication and with reviews.
 */
export class ClusterDouble implements AsyncDisposable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #watches = new Set<ServerResponse>();
  #version = 1;
  #data: Readonly<Record<string, string>> | undefined;
  #port = 0;
  #client: KubeClient | undefined;
  /** The status of a review; without one it has answered by itself. */
  reviewer: Reviewer = () => ({});
  reviews = 0;
  /** Decides over every request before all else. Returns whether it has answered. */
  gate: (request: IncomingMessage, response: ServerResponse) => boolean = () => false;
  readonly lists: URL[] = [];

  private constructor(data: Readonly<Record<string, string>> | undefined) {
    this.#data = data;
    this.#server = createServer((request, response) => void this.#serve(request, response));
    this.#server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.on("error", () => undefined).on("close", () => this.#sockets.delete(socket));
    });
  }

  /** @param data of the ConfigMap; without it there is none */
  static async start(data?: Readonly<Record<string, string>>): Promise<ClusterDouble> {
    const cluster = new ClusterDouble(data);
    await cluster.listen();
    cluster.#client = await KubeClient.connect({
      source: "test",
      server: `http://127.0.0.1:${cluster.#port}`,
      namespace: "default",
      user: {},
    });
    return cluster;
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
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client?.close();
    if (this.#server.listening) {
      await this.die();
    }
  }

  get client(): KubeClient {
    if (this.#client === undefined) {
      throw new Error("not started");
    }
    return this.#client;
  }

  get watches(): number {
    return this.#watches.size;
  }

  /** Changes the ConfigMap, and tells those who watch it. */
  put(data: Readonly<Record<string, string>> | undefined): void {
    this.#version += 1;
    const type = data === undefined ? "DELETED" : "MODIFIED";
    this.#data = data ?? this.#data;
    const line = JSON.stringify({ type, object: this.#configMap() });
    this.#data = data;
    for (const watch of this.#watches) {
      watch.write(`${line}\n`);
    }
  }

  #configMap(): object {
    return {
      kind: "ConfigMap",
      metadata: {
        name: "extension-apiserver-authentication",
        namespace: "kube-system",
        resourceVersion: String(this.#version),
      },
      data: this.#data,
    };
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on("error", () => undefined);
    if (this.gate(request, response)) {
      return;
    }
    const url = new URL(request.url ?? "/", "http://x");
    response.setHeader("content-type", "application/json");
    if (request.method === "POST") {
      const body = (await json(request)) as { readonly spec: Readonly<Record<string, unknown>> };
      this.reviews += 1;
      const status = this.reviewer(body.spec, response);
      if (status !== undefined) {
        response.writeHead(201).end(JSON.stringify({ ...body, status }));
      }
    } else if (url.searchParams.get("watch") === "true") {
      response.flushHeaders();
      this.#watches.add(response);
      response.once("close", () => this.#watches.delete(response));
    } else if (url.pathname.endsWith("/configmaps")) {
      this.lists.push(url);
      const items = this.#data === undefined ? [] : [this.#configMap()];
      response.end(JSON.stringify({ metadata: { resourceVersion: String(this.#version) }, items }));
    } else if (this.#data === undefined) {
      response
        .writeHead(404)
        .end(JSON.stringify({ kind: "Status", reason: "NotFound", message: "no such", code: 404 }));
    } else {
      response.end(JSON.stringify(this.#configMap()));
    }
  }
}
