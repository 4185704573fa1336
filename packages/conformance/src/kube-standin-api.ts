import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { text } from "node:stream/consumers";

import { reviewAccess, reviewToken, type KubeRule, type KubeUser } from "./kube-standin-reviews.ts";
import type { KubeFault, KubeFaultAction, KubeRequestNote, KubeWatchNote } from "./kube-standin-script.ts";
import { type ResourceName, type StandinStore, type StoredObject, StoreRefusal } from "./kube-standin-store.ts";

/** How often an idle watch that asks for bookmarks gets one. */
const BOOKMARK_MS = 30_000;
const KEPT_REQUESTS = 20_000;

/** What a path asks for. */
interface Target extends ResourceName {
  readonly version: string;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
  readonly subresource: string | undefined;
}

interface OpenWatch extends KubeWatchNote {
  readonly response: ServerResponse;
  readonly bookmark: () => void;
}

/** The HTTP face of a stand-in for a Kubernetes API server. */
export class StandinApi {
  readonly #store: StandinStore;
  readonly #reset: (response: ServerResponse) => void;
  readonly #watches = new Set<OpenWatch>();
  #faults: { readonly fault: KubeFault; left: number }[] = [];
  #requests: KubeRequestNote[] = [];
  users: Readonly<Record<string, KubeUser>> = {};
  rules: readonly KubeRule[] = [];
  tokens: readonly string[] = [];

  /** @param reset resets the connection that a request came on */
  constructor(store: StandinStore, reset: (response: ServerResponse) => void) {
    this.#store = store;
    this.#reset = reset;
  }

  set faults(faults: readonly KubeFault[]) {
    this.#faults = faults.map((fault) => ({ fault, left: fault.times ?? Infinity }));
  }

  get watches(): readonly KubeWatchNote[] {
    return [...this.#watches].map(({ path, query }) => ({ path, query }));
  }

  /** The requests since the last call. */
  takeRequests(): readonly KubeRequestNote[] {
    return this.#requests.splice(0);
  }

  resetWatches(): void {
    for (const { response } of this.#watches) {
      this.#reset(response);
    }
  }

  sendBookmarks(): void {
    for (const { bookmark } of this.#watches) {
      bookmark();
    }
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on("error", () => undefined);
    const url = new URL(request.url ?? "/", "http://stand-in");
    const query = Object.fromEntries(url.searchParams);
    const method = request.method ?? "GET";
    let body: unknown;
    try {
      const raw = await text(request);
      body = raw === "" ? undefined : JSON.parse(raw);
    } catch {
      return refuse(response, 400, "BadRequest", "the body is no JSON");
    }
    this.#requests.push({ at: Date.now(), method, path: url.pathname, query, ...(body === undefined ? {} : { body }) });
    this.#requests.splice(0, this.#requests.length - KEPT_REQUESTS);
    const action = this.#faultFor(method, url.pathname, query["watch"] === "true");
    if (action !== undefined && this.#interrupt(action, response)) {
      return;
    }
    const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1] ?? "";
    if (!this.tokens.includes(token)) {
      return refuse(response, 401, "Unauthorized", "Unauthorized");
    }
    try {
      this.#answer({ method, path: url.pathname, query, body, action }, response);
    } catch (error) {
      if (!(error instanceof StoreRefusal)) {
        throw error;
      }
      refuse(response, error.code, error.reason, error.message);
    }
  }

  #faultFor(method: string, path: string, watch: boolean): KubeFaultAction | undefined {
    const found = this.#faults.find(
      ({ fault, left }) =>
        left > 0 &&
        new RegExp(fault.path).test(path) &&
        (fault.method === undefined || fault.method === method) &&
        (fault.watch === undefined || fault.watch === watch),
    );
    if (found !== undefined) {
      found.left -= 1;
    }
    return found?.fault.action;
  }

  /** Whether the fault was all there is to the answer. */
  #interrupt(action: KubeFaultAction, response: ServerResponse): boolean {
    switch (action.kind) {
      case "status": {
        const { code, reason, retryAfterSeconds } = action;
        refuse(response, code, reason, `scripted ${reason}`, retryAfterSeconds);
        return true;
      }
      case "reset":
        this.#reset(response);
        return true;
      case "hang":
        return true;
      case "split":
      case "silence":
      case "watch-error":
        return false;
      default:
        throw new Error("unknown fault");
    }
  }

  #answer(
    call: {
      readonly method: string;
      readonly path: string;
      readonly query: Readonly<Record<string, string>>;
      readonly body: unknown;
      readonly action: KubeFaultAction | undefined;
    },
    response: ServerResponse,
  ): void {
    const { method, path, query, body, action } = call;
    if (method === "POST" && path.endsWith("/tokenreviews")) {
      return reply(response, 201, reviewToken(body, this.users));
    }
    if (method === "POST" && path.endsWith("/subjectaccessreviews")) {
      return reply(response, 201, reviewAccess(body, this.rules));
    }
    const target = readPath(path);
    if (target === undefined) {
      return refuse(response, 404, "NotFound", "the server could not find the requested resource");
    }
    const { namespace, name } = target;
    const asked = Number(query["resourceVersion"] ?? "0");
    if (method === "GET" && name === undefined && asked > Number(this.#store.version)) {
      return tooLarge(response, asked, this.#store.version);
    }
    if (method === "GET" && name === undefined && query["watch"] === "true") {
      return void this.#watch(target, path, query, action, response);
    }
    if (method === "GET" && name === undefined) {
      const items = this.#store.list(target, namespace).filter((object) => isSelected(object, query["fieldSelector"]));
      return reply(response, 200, {
        apiVersion: apiVersionOf(target),
        kind: "List",
        metadata: { resourceVersion: this.#store.version },
        items,
      });
    }
    if (method === "POST" && name === undefined) {
      return reply(response, 201, this.#store.create(target, namespace, named(body)));
    }
    if (name === undefined) {
      return refuse(response, 405, "MethodNotAllowed", `${method} is not allowed here`);
    }
    return reply(response, 200, this.#one(method, target, name, body));
  }

  #one(method: string, target: Target, name: string, body: unknown): StoredObject {
    const { namespace, subresource } = target;
    const before = this.#store.get(target, namespace, name);
    switch (method) {
      case "GET":
        if (before === undefined) {
          throw new StoreRefusal(404, "NotFound", `${target.plural} "${name}" not found`);
        }
        return before;
      case "PUT":
        return this.#store.update(target, namespace, named(body, name), subresource === "status" ? "status" : "all");
      case "PATCH":
        if (subresource === "status") {
          const status = typeof body === "object" && body !== null && "status" in body ? body.status : undefined;
          const whole = before ?? named({}, name);
          return this.#store.update(target, namespace, { ...whole, status }, "status");
        }
        return this.#store.apply(target, namespace, named(body, name));
      case "DELETE":
        return this.#store.delete(target, namespace, name);
      default:
        throw new StoreRefusal(405, "MethodNotAllowed", `${method} is not allowed here`);
    }
  }

  async #watch(
    target: Target,
    path: string,
    query: Readonly<Record<string, string>>,
    action: KubeFaultAction | undefined,
    response: ServerResponse,
  ): Promise<void> {
    const { namespace } = target;
    const from = Number(query["resourceVersion"] ?? "0");
    const lines: string[] = [];
    let writing = Promise.resolve();
    const send = (type: string, object: object): void => {
      const line = `${JSON.stringify({ type, object })}\n`;
      lines.push(line);
      writing = writing.then(() => write(response, line, action?.kind === "split" ? action.bytes : undefined));
    };
    const wanted = (object: StoredObject): boolean =>
      (namespace === undefined || object.metadata.namespace === namespace) &&
      isSelected(object, query["fieldSelector"]);
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    if (action?.kind === "watch-error") {
      send("ERROR", statusOf(action.code, action.reason, `scripted ${action.reason}`));
      await writing;
      response.end();
      return;
    }
    if (action?.kind === "silence") {
      return;
    }
    const following = this.#store.follow(target, from, ({ type, object }) => {
      if (wanted(object)) {
        send(type, object);
      }
    });
    if (following === undefined) {
      send("ERROR", statusOf(410, "Expired", `too old resource version: ${from}`));
      await writing;
      response.end();
      return;
    }
    const missed =
      from === 0
        ? this.#store.list(target, namespace).map((object) => ({ type: "ADDED", object }) as const)
        : following.missed;
    for (const { type, object } of missed) {
      if (wanted(object)) {
        send(type, object);
      }
    }
    const bookmark = (): void => {
      if (query["allowWatchBookmarks"] === "true") {
        send("BOOKMARK", { apiVersion: apiVersionOf(target), metadata: { resourceVersion: this.#store.version } });
      }
    };
    const watch: OpenWatch = { path, query, response, bookmark };
    this.#watches.add(watch);
    const ticking = setInterval(bookmark, BOOKMARK_MS);
    const seconds = Number(query["timeoutSeconds"] ?? "1800");
    const ending = setTimeout(() => response.end(), seconds * 1000);
    response.once("close", () => {
      clearInterval(ticking);
      clearTimeout(ending);
      following.stop();
      this.#watches.delete(watch);
    });
  }
}

async function write(response: ServerResponse, line: string, pieces: number | undefined): Promise<void> {
  if (pieces === undefined) {
    response.write(line);
    return;
  }
  const bytes = Buffer.from(line);
  for (let at = 0; at < bytes.length; at += pieces) {
    response.write(bytes.subarray(at, at + pieces));
    // A packet of its own.
    await delay(1);
  }
}

/** `/api/v1/…` or `/apis/<group>/<version>/…`, with a namespace or without. */
function readPath(path: string): Target | undefined {
  const [root = "", ...rest] = path
    .split("/")
    .filter((part) => part !== "")
    .map(decodeURIComponent);
  if (root !== "api" && root !== "apis") {
    return undefined;
  }
  const group = root === "api" ? "" : (rest.shift() ?? "");
  const version = rest.shift() ?? "";
  const namespace = rest[0] === "namespaces" && rest.length > 2 ? rest.splice(0, 2)[1] : undefined;
  const [plural, name, subresource] = rest;
  return plural === undefined ? undefined : { group, version, plural, namespace, name, subresource };
}

function apiVersionOf({ group, version }: Target): string {
  return group === "" ? version : `${group}/${version}`;
}

function isSelected({ metadata }: StoredObject, selector: string | undefined): boolean {
  const name = /^metadata\.name=(.+)$/.exec(selector ?? "")?.[1];
  return name === undefined || metadata.name === name;
}

/** A body as an object of a name: that of the path, its own, or one that is made. */
function named(body: unknown, name?: string): StoredObject {
  if (typeof body !== "object" || body === null) {
    throw new StoreRefusal(400, "BadRequest", "the body is no object");
  }
  const metadata = "metadata" in body && typeof body.metadata === "object" ? { ...body.metadata } : {};
  const own = "name" in metadata && typeof metadata.name === "string" ? metadata.name : undefined;
  return { ...body, metadata: { ...metadata, name: name ?? own ?? `made-${crypto.randomUUID()}` } };
}

function statusOf(code: number, reason: string, message: string, retryAfterSeconds?: number): object {
  const details = retryAfterSeconds === undefined ? {} : { details: { retryAfterSeconds } };
  return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", message, reason, ...details, code };
}

function refuse(
  response: ServerResponse,
  code: number,
  reason: string,
  message: string,
  retryAfterSeconds?: number,
): void {
  if (retryAfterSeconds !== undefined) {
    response.setHeader("retry-after", String(retryAfterSeconds));
  }
  reply(response, code, statusOf(code, reason, message, retryAfterSeconds));
}

/** What an API server says of a version that is still to come: its database was put back, or its cache is behind. */
function tooLarge(response: ServerResponse, asked: number, current: string): void {
  const message = `Too large resource version: ${asked}, current: ${current}`;
  const causes = [{ reason: "ResourceVersionTooLarge", message: "Too large resource version" }];
  reply(response, 504, { ...statusOf(504, "Timeout", message), details: { causes, retryAfterSeconds: 1 } });
}

function reply(response: ServerResponse, code: number, body: object): void {
  response.writeHead(code, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}
