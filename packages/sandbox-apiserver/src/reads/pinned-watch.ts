import type { Logger, SandboxEvent, Selection } from "@org/scale";
import type { Catalog } from "./catalog.ts";
import type { EventType, Form } from "./form.ts";
import { itemOf, versionOf } from "./item.ts";
import type { Item } from "./item.ts";
import { rangeOfName } from "./list-page.ts";
import { eventLine } from "./step-events.ts";
import { bookmarkLine } from "./watch-feed.ts";
import type { WatchFeed } from "./watch-feed.ts";

/** What a {@link PinnedWatch} works with. */
export interface PinnedWatchParts {
  readonly catalog: Catalog;
  readonly logger: Logger;
  readonly selection: Selection;
  readonly form: Form;
  /** The store's watch of the name, with its bookmark. */
  readonly events: AsyncIterable<SandboxEvent>;
  /** The version from which changes are told; `undefined` tells what is there first. */
  readonly from: number | undefined;
  readonly bookmarks: boolean;
  readonly markInitialEnd: boolean;
  /** There is something to send. */
  readonly wake: () => void;
  /** The store's watch ended or failed. */
  readonly ended: () => void;
}

/**
 * A watch of one name, which the store does: it asks the node before it lets go of a sandbox that inventory does not
 * show. Of the store's events one at a time is taken.
 */
export class PinnedWatch implements WatchFeed {
  readonly #parts: PinnedWatchParts;
  readonly #lines: string[] = [];
  #taken: () => void = () => undefined;
  /** What the client knows of the name, until what is there now was seen. */
  #known: Item | undefined;
  #initial = true;
  #sentAny = false;
  #bookmarkDue = false;

  constructor(parts: PinnedWatchParts) {
    this.#parts = parts;
    this.#known = parts.from === undefined ? undefined : knownAt(parts.catalog, parts.selection, parts.from);
    void this.#read();
  }

  readonly behind = false;

  bookmark(): void {
    this.#bookmarkDue = this.#parts.bookmarks;
  }

  next(): Uint8Array<ArrayBuffer> | undefined {
    if (this.#lines.length === 0 && this.#bookmarkDue && !this.#initial) {
      this.#bookmarkDue = false;
      this.#lines.push(this.#bookmarkLine(false));
    }
    if (this.#lines.length === 0) {
      return undefined;
    }
    const text = this.#lines.splice(0).join("");
    this.#taken();
    return Buffer.from(text);
  }

  async #read(): Promise<void> {
    const { events, ended, wake, logger } = this.#parts;
    try {
      for await (const event of events) {
        if (event.type === "BOOKMARK") {
          this.#endOfInitial();
        } else if (this.#initial) {
          this.#take(itemOf(event.sandbox));
        } else {
          this.#add(event.type, itemOf(event.sandbox));
        }
        if (this.#lines.length > 0) {
          const taken = new Promise<void>((resolve) => {
            this.#taken = resolve;
          });
          wake();
          await taken;
        }
      }
    } catch (error) {
      logger.error({ func: "reads.watch", err: error }, "a watch of one sandbox failed");
    }
    ended();
  }

  /** A sandbox that is there, against what the client knows. */
  #take(now: Item): void {
    const known = this.#known;
    this.#known = undefined;
    if (known === undefined || known.sandbox.id !== now.sandbox.id || known.sandbox.node !== now.sandbox.node) {
      if (known !== undefined) {
        this.#add("DELETED", known);
      }
      this.#add("ADDED", now);
    } else if (versionOf(known) !== versionOf(now)) {
      this.#add("MODIFIED", now);
    }
  }

  #endOfInitial(): void {
    this.#initial = false;
    const { bookmarks, markInitialEnd, from } = this.#parts;
    if (this.#known !== undefined) {
      this.#add("DELETED", this.#known);
      this.#known = undefined;
    }
    if (bookmarks && (markInitialEnd || from === undefined)) {
      this.#lines.push(this.#bookmarkLine(markInitialEnd));
    }
  }

  #add(type: EventType, item: Item): void {
    const { form, catalog } = this.#parts;
    const version = type === "DELETED" ? catalog.current().version : undefined;
    this.#lines.push(eventLine(type, form.single(item, !this.#sentAny, version)));
    this.#sentAny = true;
  }

  #bookmarkLine(initialEnd: boolean): string {
    const { form, catalog } = this.#parts;
    const line = bookmarkLine(form, catalog.current().version, initialEnd, !this.#sentAny);
    this.#sentAny = true;
    return line;
  }
}

/** What a client that saw a version of the fleet knows of a name. */
function knownAt(catalog: Catalog, selection: Selection, from: number): Item | undefined {
  const { namespace, pinned } = selection;
  const isMeant = (item: Item | undefined): item is Item =>
    item !== undefined &&
    item.sandbox.name === pinned &&
    item.sandbox.namespace === namespace &&
    selection.matches(item.sandbox);
  const { items, ordinal } = catalog.current();
  for (let at = from; at < ordinal; at += 1) {
    for (const { before, after } of catalog.stepAfter(at)?.changes ?? []) {
      if (isMeant(before)) {
        return before;
      }
      if (isMeant(after)) {
        return undefined;
      }
    }
  }
  const [first, end] = rangeOfName(items, namespace, pinned ?? "");
  return items.slice(first, end).find(isMeant);
}
