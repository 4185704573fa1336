import type { Logger } from "@org/scale";
import { Backoff } from "./backoff.ts";
import { errorText, KubeError, record } from "./errors.ts";
import type { KubeClient, KubeRequest, KubeStream } from "./kube-client.ts";
import { LineSplitter } from "./line-splitter.ts";
import { pause, realTiming, type Timing } from "./timing.ts";
import { isKubeObject, keyOf, readWatchEvent, versionOf, type KubeObject } from "./watch-event.ts";

/** A resource of the API, in one namespace or in all. */
export interface KubeResource {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  /** @default all namespaces, or the cluster for what has none */
  readonly namespace?: string | undefined;
}

/** What changed, in one go. */
export interface KubeChanges {
  /** New objects and those with another `resourceVersion`. */
  readonly changed: readonly KubeObject[];
  /** Keys of objects that are gone: `<namespace>/<name>`, or the name of what has no namespace. */
  readonly removed: readonly string[];
}

/** Options of {@link Reflector}. */
export interface ReflectorOptions {
  readonly client: Pick<KubeClient, "request" | "stream">;
  readonly resource: KubeResource;
  /** Such as `metadata.name=x`. @default everything */
  readonly fieldSelector?: string | undefined;
  readonly labelSelector?: string | undefined;
  /**
   * Whether the first list must be the newest state. Otherwise a server may answer it out of a cache that is behind, which
   * costs it less. @default false
   */
  readonly newest?: boolean | undefined;
  /**
   * Told of every change, once for what arrives together; first of the first list, even when it is empty. Must not
   * throw.
   */
  readonly onChanges: (changes: KubeChanges) => void;
  readonly logger?: Logger | undefined;
  /** For tests. @default real time */
  readonly timing?: Timing | undefined;
}

/** How a {@link Reflector} stands. */
export interface ReflectorStatus {
  /** Whether everything was listed once. Never turns back. */
  readonly hasSynced: boolean;
  /** Whether a watch is open now. */
  readonly watching: boolean;
  /** When the server last sent anything: a list, an event, a bookmark. */
  readonly lastEventAt: Date | undefined;
  /** Why there is no watch; absent while there is one. */
  readonly lastError: KubeError | undefined;
}

/** Silence after which a watch is given up, in milliseconds: the server sends bookmarks about once a minute. */
const SILENCE_MS = 180_000;
/** A watch that ends sooner and said nothing is no sign of health. */
const SHORT_WATCH_MS = 1000;
const PAGE_SIZE = "500";
/** So many watches in a row that the server failed at make it list anew: its trouble may be with our version. */
const FAILURES_BEFORE_LIST = 5;

/** How a list is asked for; each is less likely to be refused than the one before. Kube specification §1.4. */
type ListMode = "cached" | "consistent" | "unpaged";
const NEXT_MODE: Readonly<Record<ListMode, ListMode>> = {
  cached: "consistent",
  consistent: "unpaged",
  unpaged: "unpaged",
};

/**
 * Follows a resource: lists it, watches it, and goes on doing so through whatever the server and the network do. What
 * was learned stays while nothing can be learned. Kube specification §1.4.
 */
export class Reflector {
  readonly #options: ReflectorOptions;
  readonly #timing: Timing;
  readonly #backoff: Backoff;
  readonly #path: string;
  readonly #name: string;
  /** The version of every object, by its key. */
  #known = new Map<string, string | undefined>();
  /** Where the next watch begins; absent: list first. */
  #version: string | undefined;
  #mode: ListMode;
  #hasSynced = false;
  #watching = false;
  #lastEventAt: Date | undefined;
  #lastError: KubeError | undefined;
  /** Expired versions in a row, and watches in a row that the server failed at. */
  #expired = 0;
  #failures = 0;
  /** The kind of failure that the log was last warned of, until it is over. */
  #reported: string | undefined;
  readonly #sync = Promise.withResolvers<void>();

  constructor(options: ReflectorOptions) {
    const { group, version, plural, namespace } = options.resource;
    this.#options = options;
    this.#mode = options.newest === true ? "consistent" : "cached";
    this.#timing = options.timing ?? realTiming;
    this.#backoff = new Backoff(this.#timing);
    this.#name = group === "" ? plural : `${plural}.${group}`;
    const root = group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
    const scope = namespace === undefined ? "" : `/namespaces/${encodeURIComponent(namespace)}`;
    this.#path = `${root}${scope}/${plural}`;
  }

  get status(): ReflectorStatus {
    return {
      hasSynced: this.#hasSynced,
      watching: this.#watching,
      lastEventAt: this.#lastEventAt,
      lastError: this.#lastError,
    };
  }

  /** Resolves when everything was listed once. */
  get synced(): Promise<void> {
    return this.#sync.promise;
  }

  /** Follows the resource until the signal fires. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        if (this.#version === undefined) {
          await this.#list(signal);
        }
        await this.#watch(signal);
      } catch (error) {
        this.#watching = false;
        if (!signal.aborted) {
          await pause(this.#timing, this.#waitAfter(error), signal);
        }
      }
    }
    this.#watching = false;
  }

  async #list(signal: AbortSignal): Promise<void> {
    const items: KubeObject[] = [];
    let next: string | undefined;
    let version: string | undefined;
    do {
      const page = record(
        await this.#options.client.request({
          ...this.#request({
            // With a position the server knows the version that it belongs to.
            resourceVersion: this.#mode === "cached" && next === undefined ? "0" : undefined,
            limit: this.#mode === "unpaged" ? undefined : PAGE_SIZE,
            continue: next,
          }),
          signal,
        }),
      );
      version = versionOf(page);
      const list = page["items"] ?? [];
      if (version === undefined || !Array.isArray(list)) {
        throw new KubeError("bad_reply", `GET ${this.#path}: the reply is no list`);
      }
      items.push(...list.filter(isKubeObject));
      const position = record(page["metadata"])["continue"];
      next = typeof position === "string" && position !== "" ? position : undefined;
    } while (next !== undefined);
    this.#replace(items);
    this.#version = version;
    // From here on a server whose cache is behind must not take us back in time.
    this.#mode = "consistent";
    this.#heard();
    if (!this.#hasSynced) {
      this.#hasSynced = true;
      this.#sync.resolve();
    }
  }

  async #watch(signal: AbortSignal): Promise<void> {
    const life = new AbortController();
    const end = (): void => life.abort(signal.reason);
    signal.addEventListener("abort", end, { once: true });
    const silence = new Silence(this.#timing, () => {
      life.abort(new KubeError("timeout", `${this.#subject}: nothing was heard for ${SILENCE_MS / 1000} s`));
    });
    let heard = false;
    try {
      const stream = await this.#options.client.stream({
        ...this.#request({
          watch: "true",
          resourceVersion: this.#version,
          allowWatchBookmarks: "true",
          timeoutSeconds: String(300 + Math.floor(this.#timing.random() * 301)),
        }),
        signal: life.signal,
      });
      const opened = this.#timing.now();
      this.#open();
      heard = await this.#follow(stream, silence);
      if (!heard && this.#timing.now() - opened < SHORT_WATCH_MS) {
        throw new KubeError("connection_lost", `${this.#subject}: it ended at once`);
      }
    } finally {
      silence.stop();
      signal.removeEventListener("abort", end);
      this.#watching = false;
    }
  }

  /** Reads a watch to its end. Returns whether it said anything. */
  async #follow(stream: KubeStream, silence: Silence): Promise<boolean> {
    const splitter = new LineSplitter();
    let heard = false;
    for await (const chunk of stream) {
      silence.broken();
      const lines = splitter.push(chunk);
      if (lines.length > 0) {
        this.#read(lines);
        heard = true;
      }
    }
    const rest = splitter.end();
    // Cut off in the middle of a line: the version has not moved past it, so the next watch tells it again.
    if (rest !== undefined && isJson(rest)) {
      this.#read([rest]);
      heard = true;
    }
    return heard;
  }

  /** Takes the events of some lines, all those before one that cannot be read as well. */
  #read(lines: readonly string[]): void {
    const changed = new Map<string, KubeObject>();
    const removed = new Set<string>();
    try {
      for (const line of lines) {
        const event = readWatchEvent(line, this.#subject);
        this.#version = event.version ?? this.#version;
        if (event.type === "BOOKMARK") {
          continue;
        }
        const key = keyOf(event.object);
        if (event.type === "DELETED") {
          changed.delete(key);
          if (this.#known.delete(key)) {
            removed.add(key);
          }
        } else if (!this.#known.has(key) || event.version === undefined || this.#known.get(key) !== event.version) {
          this.#known.set(key, event.version);
          removed.delete(key);
          changed.set(key, event.object);
        }
      }
      this.#recovered();
    } finally {
      this.#heard();
      this.#tell([...changed.values()], [...removed]);
    }
  }

  #replace(items: readonly KubeObject[]): void {
    const known = new Map<string, string | undefined>();
    const changed: KubeObject[] = [];
    for (const item of items) {
      const key = keyOf(item);
      const version = versionOf(item);
      if (!this.#known.has(key) || version === undefined || this.#known.get(key) !== version) {
        changed.push(item);
      }
      known.set(key, version);
    }
    const removed = [...this.#known.keys()].filter((key) => !known.has(key));
    this.#known = known;
    this.#tell(changed, removed);
  }

  #tell(changed: readonly KubeObject[], removed: readonly string[]): void {
    if (changed.length > 0 || removed.length > 0 || !this.#hasSynced) {
      this.#options.onChanges({ changed, removed });
    }
  }

  #heard(): void {
    this.#lastEventAt = new Date();
  }

  #open(): void {
    this.#watching = true;
    this.#lastError = undefined;
    this.#backoff.healthy();
  }

  /** Something could be read: whatever was wrong is over. */
  #recovered(): void {
    this.#expired = 0;
    this.#failures = 0;
    if (this.#reported !== undefined) {
      this.#reported = undefined;
      this.#options.logger?.info({ resource: this.#name }, "watch of the API server is back");
    }
  }

  /** Decides where to go on after a failure, and how long to wait before, in milliseconds. */
  #waitAfter(error: unknown): number {
    const failure = error instanceof KubeError ? error : new KubeError("bad_reply", errorText(error), { cause: error });
    const expired = isExpired(failure);
    this.#report(failure, expired);
    this.#lastError = failure;
    if (expired) {
      if (this.#version === undefined) {
        this.#mode = NEXT_MODE[this.#mode];
      }
      this.#version = undefined;
      this.#expired += 1;
      // Versions expire in the best of worlds: only the second in a row is trouble.
      return this.#expired === 1 ? 0 : this.#backoff.next(failure.retryAfterMs);
    }
    this.#failures += isServerTrouble(failure) ? 1 : 0;
    if (missesEvents(failure) || this.#failures >= FAILURES_BEFORE_LIST) {
      this.#version = undefined;
      this.#failures = 0;
    }
    return this.#backoff.next(failure.retryAfterMs);
  }

  /** The first of several failures of one kind is worth a warning. */
  #report(failure: KubeError, expired: boolean): void {
    const { code, status, message } = failure;
    const fields = { resource: this.#name, code, status, err: message };
    const kind = `${code} ${status ?? ""}`;
    if (kind !== this.#reported && !expired) {
      this.#reported = kind;
      this.#options.logger?.warn(fields, "watch of the API server failed");
    } else {
      this.#options.logger?.debug(fields, "watch of the API server failed");
    }
  }

  get #subject(): string {
    return `watch of ${this.#name}`;
  }

  #request(query: KubeRequest["query"]): KubeRequest {
    const { fieldSelector, labelSelector } = this.#options;
    return { path: this.#path, query: { ...query, fieldSelector, labelSelector } };
  }
}

/** Calls back when a watch was silent for too long. Counts from its making. */
class Silence {
  readonly #timing: Timing;
  readonly #onSilence: () => void;
  #since: number;
  #cancel: () => void;

  constructor(timing: Timing, onSilence: () => void) {
    this.#timing = timing;
    this.#onSilence = onSilence;
    this.#since = timing.now();
    this.#cancel = timing.after(SILENCE_MS, () => this.#look());
  }

  broken(): void {
    this.#since = this.#timing.now();
  }

  stop(): void {
    this.#cancel();
  }

  #look(): void {
    const left = this.#since + SILENCE_MS - this.#timing.now();
    if (left <= 0) {
      this.#onSilence();
    } else {
      this.#cancel = this.#timing.after(left, () => this.#look());
    }
  }
}

/** Our version, or our place in a list, is one the server no longer has, or has not yet. */
function isExpired({ status, reason, statusCauses }: KubeError): boolean {
  return (
    status === 410 || reason === "Expired" || reason === "Gone" || statusCauses.includes("ResourceVersionTooLarge")
  );
}

/** The server is there and does not cope with this very watch. */
function isServerTrouble({ status }: KubeError): boolean {
  return status !== undefined && status >= 500;
}

/** After this a watch from our version would leave out what was said, or never begin. */
function missesEvents({ code, status }: KubeError): boolean {
  if (code === "bad_reply") {
    return true;
  }
  const asked = status !== undefined && status >= 400 && status < 500;
  return asked && status !== 401 && status !== 403 && status !== 408 && status !== 429;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
