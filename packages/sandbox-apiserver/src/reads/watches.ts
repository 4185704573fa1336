import type { Logger, SandboxStore, Selection } from "@org/scale";
import { unavailable } from "../api-status.ts";
import type { Catalog } from "./catalog.ts";
import { FleetWatch } from "./fleet-watch.ts";
import type { Form } from "./form.ts";
import type { WatchQuery } from "./list-query.ts";
import { PinnedWatch } from "./pinned-watch.ts";
import type { PinnedWatchParts } from "./pinned-watch.ts";
import { WatchBody } from "./watch-body.ts";
import type { WatchFeed } from "./watch-feed.ts";

/** What {@link Watches} work with. */
export interface WatchesParts {
  readonly store: Pick<SandboxStore, "watch" | "onChange">;
  readonly catalog: Catalog;
  readonly logger: Logger;
  /** Uniform numbers in [0, 1). */
  readonly random: () => number;
  readonly bookmarkIntervalMs: number;
}

/** What a watch is about. */
export interface WatchRequest {
  readonly selection: Selection;
  /** The selectors as the store takes them. */
  readonly selectors: { readonly labelSelector: string; readonly fieldSelector: string };
  readonly form: Form;
  readonly query: WatchQuery;
  readonly signal: AbortSignal;
}

interface OpenWatch {
  readonly body: WatchBody;
  readonly feed: WatchFeed;
}

const SHORTEST_S = 1800;
const LONGEST_S = 3600;
/** Timers take no longer times. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** After a look that took t, the next one is at least so many times t away: looks take a tenth of the time at most. */
const REST_FACTOR = 9;
const LONGEST_REST_MS = 1000;

/**
 * All watches. The store tells of changes; one comparison of the fleet serves every watch. Without watches nothing runs.
 */
export class Watches {
  readonly #parts: WatchesParts;
  readonly #open = new Set<OpenWatch>();
  #leaveStore: () => void = () => undefined;
  #bookmarkTimer: NodeJS.Timeout | undefined;
  #lookTimer: NodeJS.Timeout | undefined;
  #restUntil = 0;
  #closed = false;

  constructor(parts: WatchesParts) {
    this.#parts = parts;
  }

  /** How many watches are open. */
  get size(): number {
    return this.#open.size;
  }

  /**
   * A watch's body: it has begun, and ends with its time-out, its signal, its reader, or {@link close}.
   * @throws ApiStatusError 503 after {@link close}.
   */
  begin(request: WatchRequest): ReadableStream<Uint8Array<ArrayBuffer>> {
    if (this.#closed) {
      throw unavailable("the server is shutting down", 1);
    }
    const { query, signal } = request;
    const over = new AbortController();
    let watch: OpenWatch | undefined;
    const feed = this.#feed(request, over.signal, {
      wake: () => watch?.body.wake(),
      ended: () => watch?.body.end(),
    });
    const body = new WatchBody({
      next: () => feed.next(),
      ended: () => {
        over.abort();
        if (watch !== undefined) {
          this.#end(watch);
        }
      },
      signal,
      timeoutMs: this.#timeoutMs(query.timeoutSeconds),
    });
    if (!body.hasEnded) {
      watch = { body, feed };
      this.#begin(watch);
    }
    return body.stream;
  }

  /** Ends every watch, and refuses others. */
  close(): void {
    this.#closed = true;
    for (const { body } of this.#open) {
      body.end();
    }
  }

  #feed(
    { selection, selectors, form, query }: WatchRequest,
    over: AbortSignal,
    hooks: Pick<PinnedWatchParts, "wake" | "ended">,
  ): WatchFeed {
    const { catalog, store, logger } = this.#parts;
    const parts = {
      catalog,
      selection,
      form,
      from: this.#from(query),
      bookmarks: query.bookmarks,
      markInitialEnd: query.initialEvents === true && query.bookmarks,
    };
    if (selection.pinned === undefined) {
      return new FleetWatch(parts);
    }
    const { namespace } = selection;
    const events = store.watch({ namespace, ...selectors, bookmark: true, signal: over });
    return new PinnedWatch({ ...parts, ...hooks, events, logger });
  }

  /** The version from which a watch goes on; `undefined` when it begins with everything that is there. */
  #from({ resourceVersion, initialEvents }: WatchQuery): number | undefined {
    const { catalog } = this.#parts;
    const now = catalog.current();
    if (initialEvents === true) {
      return undefined;
    }
    if (resourceVersion === "" || resourceVersion === "0") {
      return initialEvents === false ? now.ordinal : undefined;
    }
    return catalog.ordinalOf(resourceVersion);
  }

  #timeoutMs(seconds: number): number {
    const { random } = this.#parts;
    return Math.min(MAX_TIMEOUT_MS, (seconds || SHORTEST_S + random() * (LONGEST_S - SHORTEST_S)) * 1000);
  }

  #begin(watch: OpenWatch): void {
    this.#open.add(watch);
    if (this.#open.size === 1) {
      const { store, bookmarkIntervalMs } = this.#parts;
      this.#leaveStore = store.onChange(() => this.#changed());
      this.#bookmarkTimer = setInterval(() => this.#bookmark(), bookmarkIntervalMs);
    }
  }

  #end(watch: OpenWatch): void {
    if (this.#open.delete(watch) && this.#open.size === 0) {
      this.#leaveStore();
      clearInterval(this.#bookmarkTimer);
      clearTimeout(this.#lookTimer);
      this.#lookTimer = undefined;
    }
  }

  #changed(): void {
    if (this.#lookTimer !== undefined) {
      return;
    }
    const wait = this.#restUntil - performance.now();
    if (wait <= 0) {
      this.#look();
      return;
    }
    this.#lookTimer = setTimeout(() => {
      this.#lookTimer = undefined;
      this.#look();
    }, wait);
  }

  /** Takes in what is new; everybody sends it as fast as their readers read. */
  #look(): void {
    const { catalog, logger } = this.#parts;
    const began = performance.now();
    try {
      catalog.current();
    } catch (error) {
      logger.error({ func: "reads.watch", err: error }, "watches could not look at the fleet");
    }
    const ended = performance.now();
    this.#restUntil = ended + Math.min(LONGEST_REST_MS, (ended - began) * REST_FACTOR);
    for (const { body, feed } of this.#open) {
      if (feed.behind) {
        logger.warn({ func: "reads.watch" }, "a watch ended whose reader is too slow");
        body.end();
      } else {
        body.wake();
      }
    }
  }

  #bookmark(): void {
    for (const { body, feed } of this.#open) {
      feed.bookmark();
      body.wake();
    }
  }
}
