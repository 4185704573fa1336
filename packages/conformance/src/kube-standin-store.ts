/** An object of the API, as far as the stand-in cares. */
export interface StoredObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly resourceVersion?: string;
    readonly generation?: number;
    readonly creationTimestamp?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly [field: string]: unknown;
}

/** A resource: all objects of one kind. */
export interface ResourceName {
  /** Empty for the core group. */
  readonly group: string;
  readonly plural: string;
}

/** One change, in the order of versions. */
export interface StoredEvent {
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly object: StoredObject;
  readonly version: number;
}

/** How a write failed. */
export class StoreRefusal extends Error {
  override readonly name = "StoreRefusal";
  readonly code: number;
  readonly reason: string;

  constructor(code: number, reason: string, message: string) {
    super(message);
    this.code = code;
    this.reason = reason;
  }
}

const KEPT_EVENTS = 1000;
/** Members that are not the writer's. */
const SYSTEM_FIELDS = ["uid", "creationTimestamp", "generation", "resourceVersion"] as const;

interface Resource {
  readonly objects: Map<string, StoredObject>;
  readonly events: StoredEvent[];
  readonly watchers: Set<(event: StoredEvent) => void>;
  /** Versions up to this one are forgotten. */
  compacted: number;
}

/** Objects with versions and a history, as an API server keeps them in its database. */
export class StandinStore {
  readonly #resources = new Map<string, Resource>();
  #version = 1000;

  /** The newest version of all. */
  get version(): string {
    return String(this.#version);
  }

  list(name: ResourceName, namespace: string | undefined): readonly StoredObject[] {
    return [...this.#resource(name).objects.values()].filter(
      (object) => namespace === undefined || object.metadata.namespace === namespace,
    );
  }

  get(name: ResourceName, namespace: string | undefined, object: string): StoredObject | undefined {
    return this.#resource(name).objects.get(keyOf(namespace, object));
  }

  /** @throws StoreRefusal 409 when it is there. */
  create(name: ResourceName, namespace: string | undefined, object: StoredObject): StoredObject {
    if (this.get(name, namespace, object.metadata.name) !== undefined) {
      throw new StoreRefusal(409, "AlreadyExists", `${name.plural} "${object.metadata.name}" already exists`);
    }
    return this.#write(name, namespace, undefined, object);
  }

  /**
   * Replaces an object. With `part: "status"` nothing but the status.
   * @throws StoreRefusal 404 when it is not there, 409 when it was changed since its version
   */
  update(
    name: ResourceName,
    namespace: string | undefined,
    object: StoredObject,
    part: "all" | "status" = "all",
  ): StoredObject {
    const { name: called, resourceVersion } = object.metadata;
    const before = this.get(name, namespace, called);
    if (before === undefined) {
      throw new StoreRefusal(404, "NotFound", `${name.plural} "${called}" not found`);
    }
    if (resourceVersion !== undefined && resourceVersion !== before.metadata.resourceVersion) {
      throw new StoreRefusal(409, "Conflict", `${name.plural} "${called}": the object has been modified`);
    }
    const next = part === "status" ? { ...before, status: object["status"] } : { ...object, status: before["status"] };
    return this.#write(name, namespace, before, hasStatus(name) ? next : object);
  }

  /** Creates or replaces an object without a condition, as server-side apply with force does for its only owner. */
  apply(name: ResourceName, namespace: string | undefined, object: StoredObject): StoredObject {
    return this.#write(name, namespace, this.get(name, namespace, object.metadata.name), object);
  }

  /** @throws StoreRefusal 404 when it is not there. */
  delete(name: ResourceName, namespace: string | undefined, object: string): StoredObject {
    const resource = this.#resource(name);
    const before = this.get(name, namespace, object);
    if (before === undefined) {
      throw new StoreRefusal(404, "NotFound", `${name.plural} "${object}" not found`);
    }
    resource.objects.delete(keyOf(namespace, object));
    this.#version += 1;
    const gone = { ...before, metadata: { ...before.metadata, resourceVersion: this.version } };
    this.#tell(resource, "DELETED", gone);
    return gone;
  }

  /** Changes after a version, and then every further one until `stop`; `undefined` for a version that is forgotten. */
  follow(
    name: ResourceName,
    after: number,
    listener: (event: StoredEvent) => void,
  ): { readonly missed: readonly StoredEvent[]; readonly stop: () => void } | undefined {
    const resource = this.#resource(name);
    if (after < resource.compacted) {
      return undefined;
    }
    resource.watchers.add(listener);
    return {
      missed: resource.events.filter(({ version }) => version > after),
      stop: () => void resource.watchers.delete(listener),
    };
  }

  /** Forgets the history, so that every older version is expired. */
  compact(): void {
    this.#version += 1;
    for (const resource of this.#resources.values()) {
      resource.events.length = 0;
      resource.compacted = this.#version;
    }
  }

  #write(
    name: ResourceName,
    namespace: string | undefined,
    before: StoredObject | undefined,
    object: StoredObject,
  ): StoredObject {
    const resource = this.#resource(name);
    const { labels, annotations } = object.metadata;
    const metadata = {
      name: object.metadata.name,
      ...(namespace === undefined ? {} : { namespace }),
      ...(labels === undefined ? {} : { labels }),
      ...(annotations === undefined ? {} : { annotations }),
    };
    if (before !== undefined && sameContent(before, { ...object, metadata })) {
      return before;
    }
    this.#version += 1;
    const changed = before === undefined || JSON.stringify(before["spec"]) !== JSON.stringify(object["spec"]);
    const next: StoredObject = {
      ...object,
      metadata: {
        ...metadata,
        uid: before?.metadata.uid ?? crypto.randomUUID(),
        creationTimestamp: before?.metadata.creationTimestamp ?? `${new Date().toISOString().slice(0, 19)}Z`,
        generation: (before?.metadata.generation ?? 0) + (changed ? 1 : 0),
        resourceVersion: this.version,
      },
    };
    resource.objects.set(keyOf(namespace, next.metadata.name), next);
    this.#tell(resource, before === undefined ? "ADDED" : "MODIFIED", next);
    return next;
  }

  #tell(resource: Resource, type: StoredEvent["type"], object: StoredObject): void {
    const event = { type, object, version: this.#version };
    resource.events.push(event);
    if (resource.events.length > KEPT_EVENTS) {
      resource.compacted = resource.events.shift()?.version ?? resource.compacted;
    }
    for (const watcher of resource.watchers) {
      watcher(event);
    }
  }

  #resource({ group, plural }: ResourceName): Resource {
    const key = `${group}/${plural}`;
    const resource = this.#resources.get(key) ?? {
      objects: new Map(),
      events: [],
      watchers: new Set(),
      compacted: 0,
    };
    this.#resources.set(key, resource);
    return resource;
  }
}

function keyOf(namespace: string | undefined, name: string): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}

/** Resources whose status is written by itself. */
function hasStatus({ plural }: ResourceName): boolean {
  return plural === "sandboxwarmpools";
}

function sameContent(before: StoredObject, next: StoredObject): boolean {
  const metadata = Object.fromEntries(
    Object.entries(before.metadata).filter(([field]) => !(SYSTEM_FIELDS as readonly string[]).includes(field)),
  );
  return sorted({ ...before, metadata }) === sorted(next);
}

/** JSON that does not depend on the order of members. */
function sorted(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}
