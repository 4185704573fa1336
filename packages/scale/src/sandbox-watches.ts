import { EventStream } from "./event-stream.ts";
import { FleetFeed } from "./fleet-feed.ts";
import { FleetWatch } from "./fleet-watch.ts";
import type { Watch, WatchFailure } from "./fleet-watch.ts";
import type { SandboxEvent } from "./ports.ts";
import { PinnedWatch } from "./pinned-watch.ts";
import type { SandboxSelect, SelectParts } from "./select.ts";
import type { Selection } from "./selection.ts";

/** What {@link SandboxWatches} work with. */
export interface WatchesParts extends SelectParts {
  readonly select: SandboxSelect;
  readonly pollMs: number;
}

/**
 * Every watch of one store. One timer drives them, so that watches look at the same states of the fleet and share what
 * is worked out of them; without watches nothing runs and nothing is held.
 */
export class SandboxWatches {
  readonly #parts: WatchesParts;
  readonly #feed: FleetFeed;
  readonly #watches = new Set<Watch>();
  #timer: NodeJS.Timeout | undefined;

  constructor(parts: WatchesParts) {
    this.#parts = parts;
    this.#feed = new FleetFeed(parts);
  }

  /** A watch that begins with its first read. */
  open(selection: Selection, bookmark: boolean, signal: AbortSignal | undefined): AsyncIterable<SandboxEvent> {
    const ended = new AbortController();
    const stream: EventStream<SandboxEvent> = new EventStream({
      signal,
      begin: () => this.#begin(watch),
      end: () => {
        ended.abort();
        this.#end(watch);
      },
    });
    const parts = {
      feed: this.#feed,
      select: this.#parts.select,
      stream,
      selection,
      bookmark,
      failed: (failure: WatchFailure, error: unknown) => this.#failed(failure, error),
    };
    const watch =
      selection.pinned === undefined
        ? new FleetWatch(parts)
        : new PinnedWatch({ ...parts, finder: this.#parts.finder, signal: ended.signal });
    return stream;
  }

  #begin(watch: Watch): void {
    this.#watches.add(watch);
    this.#timer ??= setInterval(() => this.#tick(), this.#parts.pollMs);
    watch.begin();
  }

  #end(watch: Watch): void {
    this.#watches.delete(watch);
    if (this.#watches.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
      this.#feed.reset();
    }
  }

  #tick(): void {
    let failure: { readonly error: unknown } | undefined;
    const current = once(() => this.#feed.current());
    for (const watch of this.#watches) {
      try {
        watch.look(current);
      } catch (error) {
        failure ??= { error };
      }
    }
    if (failure !== undefined) {
      this.#failed("watch poll list failed", failure.error);
    }
  }

  #failed(failure: WatchFailure, error: unknown): void {
    this.#parts.logger.error({ func: "scale.runWatch", err: error }, failure);
  }
}

/** Does the work at the first call. What throws is tried again. */
function once<T extends object>(work: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= work());
}
