import { setImmediate as nextTurn } from "node:timers/promises";
import { throwIfAborted } from "./detached-work.ts";
import type { InventoryEntry, Sandbox } from "./domain.ts";
import { ScaleError } from "./errors.ts";
import { ourWrites } from "./our-writes.ts";
import type { Overlay } from "./overlay.ts";
import type { AgePosition, InventorySource, Logger, PageOptions, SandboxPage } from "./ports.ts";
import { readableViews } from "./readable-views.ts";
import { namespaceOf, sandboxOf } from "./sandbox-view.ts";
import type { ViewIndexes } from "./view-index.ts";

/** How long the look for a page may hold the event loop at a time, in milliseconds. */
const STRETCH_MS = 4;
/** Entries that are looked at between two looks at the clock. */
const ENTRIES_PER_STEP = 4096;
/** How far what we take for a start may be from what the node lists for the former to go on counting. */
const MAX_DRIFT_MS = 60_000;
/** About 6 MB. The sandbox that was shown first is forgotten first. */
const MAX_SHOWN = 65_536;

/** What {@link AgePages} work with. */
export interface AgePageParts {
  readonly source: InventorySource;
  readonly overlay: Overlay;
  readonly views: ViewIndexes;
  readonly logger: Logger;
}

/**
 * Sandboxes by age, a page at a time. Nothing is sorted or built but what comes into the page: the starts of a node's
 * entries are kept as plain numbers for as long as the node lists the same, and turn nearly everything away.
 */
export class AgePages {
  readonly #parts: AgePageParts;
  readonly #starts = new WeakMap<readonly InventoryEntry[], Float64Array>();
  /**
   * Where pages showed sandboxes that their nodes did not list yet. A node's own word may differ by the time that a claim
   * took: a sandbox that moved for that would be on two pages, or on none.
   */
  readonly #shown = new Map<string, number>();

  constructor(parts: AgePageParts) {
    this.#parts = parts;
  }

  /** Rejects with `aborted`, or `bad_request` for a limit below 1. */
  async page(options: PageOptions): Promise<SandboxPage> {
    const { source, overlay, views, logger } = this.#parts;
    const { namespace = "", limit, signal } = options;
    throwIfAborted(signal);
    if (limit !== undefined && (!Number.isSafeInteger(limit) || limit < 1)) {
      throw new ScaleError("bad_request", "a page holds a positive whole number of sandboxes");
    }
    overlay.prune();
    const page = new GrowingPage(options);
    let began = performance.now();
    const pause = async (): Promise<void> => {
      if (performance.now() - began >= STRETCH_MS) {
        await nextTurn();
        throwIfAborted(signal);
        began = performance.now();
      }
    };
    for (const view of readableViews(source, logger)) {
      const { node } = view;
      const writes = ourWrites(overlay, views, view);
      const replaced = new Set(writes.map((write) => write.listed));
      const entries = views.of(view).inNamespace(namespace);
      const starts = this.#startsOf(entries);
      for (let from = 0; from < entries.length; from += ENTRIES_PER_STEP) {
        page.offer(node, { entries, starts, replaced, from, to: Math.min(from + ENTRIES_PER_STEP, entries.length) });
        await pause();
      }
      for (const { listed, now } of writes) {
        if (now !== undefined && (namespace === "" || namespaceOf(now.name) === namespace)) {
          page.offerOne(node, now, listed === undefined ? this.#show(now) : this.#startOf(now));
        }
      }
      // The next view is looked up after the pause: it is one that our writes are compared with.
      await pause();
    }
    return page.finish();
  }

  #startsOf(entries: readonly InventoryEntry[]): Float64Array {
    const known = this.#starts.get(entries);
    if (known !== undefined) {
      return known;
    }
    const starts = Float64Array.from(entries, (entry) => this.#startOf(entry));
    this.#starts.set(entries, starts);
    return starts;
  }

  /** The place of an entry that no view lists yet, to which it keeps. */
  #show(entry: InventoryEntry): number {
    const known = this.#shown.get(entry.id);
    if (known !== undefined) {
      return known;
    }
    const start = startOf(entry);
    this.#shown.set(entry.id, start);
    for (const oldest of this.#shown.keys()) {
      if (this.#shown.size <= MAX_SHOWN) {
        break;
      }
      this.#shown.delete(oldest);
    }
    return start;
  }

  #startOf(entry: InventoryEntry): number {
    const start = startOf(entry);
    const shown = this.#shown.size === 0 ? undefined : this.#shown.get(entry.id);
    if (shown === undefined || (start !== 0 && Math.abs(shown - start) > MAX_DRIFT_MS)) {
      return start;
    }
    return shown;
  }
}

/** A sandbox without a start sorts as the oldest, always at the same place, so that pages meet it exactly once. */
function startOf(entry: InventoryEntry): number {
  return entry.claimedAt?.getTime() || 0;
}

interface Stretch {
  readonly entries: readonly InventoryEntry[];
  readonly starts: Float64Array;
  /** Entries that our own writes stand for. */
  readonly replaced: ReadonlySet<InventoryEntry | undefined>;
  readonly from: number;
  readonly to: number;
}

interface Placed extends AgePosition {
  readonly sandbox: Sandbox;
}

/** The best sandboxes seen so far, in order, and one more to know whether another page follows. */
class GrowingPage {
  readonly #sign: 1 | -1;
  readonly #limit: number;
  readonly #after: AgePosition | undefined;
  readonly #matches: ((sandbox: Sandbox) => boolean) | undefined;
  readonly #placed: Placed[] = [];
  /** The one that the next better one pushes out. */
  #worst: AgePosition | undefined;

  constructor({ newestFirst = false, limit = Number.POSITIVE_INFINITY, after, matches }: PageOptions) {
    this.#sign = newestFirst ? -1 : 1;
    this.#limit = limit;
    this.#after = after;
    this.#matches = matches;
  }

  offer(node: string, { entries, starts, replaced, from, to }: Stretch): void {
    const sign = this.#sign;
    const first = this.#after === undefined ? Number.NEGATIVE_INFINITY : sign * this.#after.startedMs;
    let last = this.#last();
    for (let at = from; at < to; at += 1) {
      const startedMs = starts[at] ?? 0;
      if (sign * startedMs < first || sign * startedMs > last) {
        continue;
      }
      const entry = entries[at];
      if (entry !== undefined && !replaced.has(entry)) {
        this.offerOne(node, entry, startedMs);
        last = this.#last();
      }
    }
  }

  /** What comes behind this start has no place in the page. */
  #last(): number {
    return this.#worst === undefined ? Number.POSITIVE_INFINITY : this.#sign * this.#worst.startedMs;
  }

  offerOne(node: string, entry: InventoryEntry, startedMs: number): void {
    const { id } = entry;
    if (
      // Nothing can be done with a sandbox that has no id.
      id === "" ||
      (this.#worst !== undefined && this.#compare(startedMs, id, this.#worst) >= 0) ||
      (this.#after !== undefined && this.#compare(startedMs, id, this.#after) <= 0)
    ) {
      return;
    }
    const sandbox = sandboxOf(node, entry);
    if (this.#matches?.(sandbox) === false) {
      return;
    }
    const placed = this.#placed;
    if (this.#limit === Number.POSITIVE_INFINITY) {
      placed.push({ sandbox, startedMs, id });
      return;
    }
    if (placed.length > this.#limit) {
      placed.pop();
    }
    placed.splice(this.#placeOf(startedMs, id), 0, { sandbox, startedMs, id });
    this.#worst = placed[this.#limit];
  }

  finish(): SandboxPage {
    const placed = this.#placed;
    if (this.#limit === Number.POSITIVE_INFINITY) {
      placed.sort((a, b) => this.#compare(a.startedMs, a.id, b));
    }
    const page = placed.slice(0, this.#limit);
    const last = page.at(-1);
    return {
      sandboxes: page.map(({ sandbox }) => sandbox),
      next: placed.length > page.length && last !== undefined ? { startedMs: last.startedMs, id: last.id } : undefined,
    };
  }

  #placeOf(startedMs: number, id: string): number {
    let low = 0;
    let high = this.#placed.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const other = this.#placed[middle];
      if (other !== undefined && this.#compare(startedMs, id, other) >= 0) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  #compare(startedMs: number, id: string, other: AgePosition): number {
    const order =
      startedMs !== other.startedMs ? startedMs - other.startedMs : id < other.id ? -1 : id > other.id ? 1 : 0;
    return this.#sign * order;
  }
}
