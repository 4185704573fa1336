import { randomUUID } from "node:crypto";
import { KubeError, type KubeObject, type KubeRequest, type KubeStream } from "@org/kubeinventory/client";
import { FakeWatch } from "./fake-watch.ts";

/** What a cluster does with a request before anything else: throw, wait, or nothing. */
export type Gate = (request: KubeRequest, signal: AbortSignal | undefined) => Promise<void> | void;

type Members = Record<string, unknown>;

/**
 * An API server in memory with any resource: versions, generations, conflicts, status, lists and watches. Stands in for the
 * client of one.
 */
export class FakeCluster {
  readonly #objects = new Map<string, KubeObject>();
  readonly #watches = new Set<{ readonly path: string; readonly watch: FakeWatch }>();
  #version = 100;
  readonly requests: KubeRequest[] = [];
  gate: Gate = () => undefined;
  /** Status members that the resource does not know and drops. */
  prunes: readonly string[] = [];

  async request(request: KubeRequest): Promise<unknown> {
    await this.#enter(request);
    const { method = "GET", path } = request;
    const { collection, name, status } = place(path);
    if (method === "POST") {
      return this.#create(collection, request.body as KubeObject);
    }
    if (name === undefined) {
      const items = [...this.#objects].filter(([key]) => isIn(key, collection)).map(([, object]) => object);
      return { metadata: { resourceVersion: String(this.#version) }, items };
    }
    const found = this.#objects.get(`${collection}/${name}`);
    if (found === undefined) {
      throw refusal(request, 404, "NotFound");
    }
    if (method === "PUT") {
      return this.#replace(`${collection}/${name}`, found, request, status);
    }
    return structuredClone(found);
  }

  async stream(request: KubeRequest): Promise<KubeStream> {
    await this.#enter(request);
    const entry = { path: place(request.path).collection, watch: new FakeWatch(request.signal) };
    this.#watches.add(entry);
    return entry.watch;
  }

  /** Makes or changes an object at a path, as a user does: with another spec it has another generation. */
  put(path: string, more: Members): void {
    const { collection, name = "" } = place(path);
    const before = this.#objects.get(path);
    const namespace = /\/namespaces\/([^/]+)\//.exec(path)?.[1];
    this.#store(`${collection}/${name}`, {
      ...before,
      ...more,
      metadata: {
        ...before?.metadata,
        ...(more["metadata"] as Members | undefined),
        name,
        namespace,
      },
    });
  }

  remove(path: string): void {
    const object = this.#objects.get(path);
    if (this.#objects.delete(path) && object !== undefined) {
      this.#version += 1;
      const metadata = { ...object.metadata, resourceVersion: String(this.#version) };
      this.#tell(path, "DELETED", { ...object, metadata });
    }
  }

  get(path: string): KubeObject | undefined {
    return this.#objects.get(path);
  }

  /** All objects of a collection. */
  all(collection: string): readonly KubeObject[] {
    return [...this.#objects].filter(([key]) => isIn(key, collection)).map(([, object]) => object);
  }

  /** Cannot be reached from now on, and ends all watches. */
  die(): void {
    this.gate = (request) => {
      throw new KubeError("unreachable", `${request.path}: connection refused`);
    };
    for (const { watch } of this.#watches) {
      watch.fail(new KubeError("connection_lost", "the connection broke"));
    }
    this.#watches.clear();
  }

  revive(): void {
    this.gate = () => undefined;
  }

  /** Requests with this method, by where their path ends. */
  seen(method: string, end = ""): readonly KubeRequest[] {
    return this.requests.filter((request) => (request.method ?? "GET") === method && request.path.endsWith(end));
  }

  async #enter(request: KubeRequest): Promise<void> {
    this.requests.push(request);
    const { signal, path } = request;
    await this.gate(request, signal);
    if (signal?.aborted === true) {
      throw signal.reason instanceof KubeError ? signal.reason : new KubeError("aborted", `${path}: aborted`);
    }
  }

  #create(collection: string, body: KubeObject): KubeObject {
    const key = `${collection}/${body.metadata.name}`;
    if (this.#objects.has(key)) {
      throw refusal({ path: key }, 409, "AlreadyExists");
    }
    return this.#store(key, body);
  }

  #replace(key: string, found: KubeObject, request: KubeRequest, status: boolean): KubeObject {
    const body = request.body as KubeObject;
    if (body.metadata.resourceVersion !== found.metadata.resourceVersion) {
      throw refusal(request, 409, "Conflict");
    }
    if (!status) {
      return this.#store(key, { ...body, ...("status" in found ? { status: found["status"] } : {}) });
    }
    const kept = Object.entries(body["status"] as Members).filter(([name]) => !this.prunes.includes(name));
    return this.#store(key, { ...found, status: Object.fromEntries(kept) });
  }

  #store(key: string, object: KubeObject): KubeObject {
    const before = this.#objects.get(key);
    const old = before?.metadata as Members | undefined;
    const same = before !== undefined && JSON.stringify(before["spec"]) === JSON.stringify(object["spec"]);
    this.#version += 1;
    const stored = structuredClone({
      ...object,
      metadata: {
        ...object.metadata,
        uid: old?.["uid"] ?? randomUUID(),
        generation: Number(old?.["generation"] ?? 0) + (same ? 0 : 1),
        resourceVersion: String(this.#version),
      },
    });
    this.#objects.set(key, stored);
    this.#tell(key, before === undefined ? "ADDED" : "MODIFIED", stored);
    return structuredClone(stored);
  }

  #tell(key: string, type: string, object: KubeObject): void {
    for (const { path, watch } of this.#watches) {
      if (isIn(key, path)) {
        watch.send(`${JSON.stringify({ type, object })}\n`);
      }
    }
  }
}

/** Waits until the signal fires: for a {@link Gate} that never answers. */
export async function silence(_request: KubeRequest, signal: AbortSignal | undefined): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  if (signal?.aborted !== true) {
    signal?.addEventListener("abort", () => resolve(), { once: true });
    await promise;
  }
}

/** A refusal with a status. */
export function refusal({ path }: Pick<KubeRequest, "path">, status: number, reason: string): KubeError {
  return new KubeError("status", `${path}: ${status} ${reason}`, { status, reason });
}

/** Which objects and which of them a path names. */
function place(path: string): { collection: string; name: string | undefined; status: boolean } {
  const match = /^(\/(?:api|apis\/[^/]+)\/[^/]+(?:\/namespaces\/[^/]+)?\/[^/]+)(?:\/([^/]+))?(\/status)?$/.exec(path);
  if (match === null) {
    throw new Error(`no such path: ${path}`);
  }
  return { collection: match[1] ?? "", name: match[2], status: match[3] !== undefined };
}

/** Whether an object lies in a collection, of one namespace or of all. */
function isIn(key: string, collection: string): boolean {
  const folder = key.slice(0, key.lastIndexOf("/"));
  return folder === collection || folder.replace(/\/namespaces\/[^/]+/, "") === collection;
}
