import type { Selection } from "@org/scale";
import type { Catalog, FleetVersion } from "./catalog.ts";
import type { Form } from "./form.ts";
import { rangeOf } from "./list-page.ts";
import { encodedStep, eventLine } from "./step-events.ts";
import type { EncodedStep } from "./step.ts";
import { TextSlices } from "./text-stream.ts";
import type { WatchFeed } from "./watch-feed.ts";
import { bookmarkLine } from "./watch-feed.ts";

/** What a {@link FleetWatch} works with. */
export interface FleetWatchParts {
  readonly catalog: Catalog;
  readonly selection: Selection;
  readonly form: Form;
  /** The version from which changes are told; `undefined` tells what is there first. */
  readonly from: number | undefined;
  readonly bookmarks: boolean;
  /** Whether the bookmark behind what is there says so. */
  readonly markInitialEnd: boolean;
}

/** Sandboxes looked at between two looks at the clock while nothing is selected. */
const LOOKS_PER_TEXT = 256;

/**
 * A watch of everything that a selection lists. It holds the version that it told last: what follows is written once
 * for all watches that are alike. It has fallen behind for good when what follows is forgotten.
 */
export class FleetWatch implements WatchFeed {
  readonly #parts: FleetWatchParts;
  #told: number;
  #initial: TextSlices | undefined;
  #step: { readonly encoded: EncodedStep; chunk: number } | undefined;
  #sentAny = false;
  #bookmarkDue = false;
  #markEnd: boolean;

  constructor(parts: FleetWatchParts) {
    this.#parts = parts;
    const now = parts.catalog.current();
    this.#told = parts.from ?? now.ordinal;
    this.#initial = parts.from === undefined ? new TextSlices(this.#added(now)) : undefined;
    this.#markEnd = parts.markInitialEnd;
  }

  get behind(): boolean {
    return this.#told < this.#parts.catalog.oldestOrdinal;
  }

  bookmark(): void {
    this.#bookmarkDue = this.#parts.bookmarks;
  }

  next(): Uint8Array<ArrayBuffer> | undefined {
    const slice = this.#initial?.next();
    if (slice !== undefined) {
      return slice;
    }
    if (this.#initial !== undefined) {
      this.#initial = undefined;
      // Clients resume from the last version that they saw: that of the list, rather than that of its last object.
      this.#bookmarkDue = this.#parts.bookmarks;
    }
    if (this.#bookmarkDue && this.#step === undefined && (this.#markEnd || this.#told === this.#now.ordinal)) {
      return this.#bookmark();
    }
    return this.#changes();
  }

  get #now(): FleetVersion {
    return this.#parts.catalog.last;
  }

  #changes(): Uint8Array<ArrayBuffer> | undefined {
    const { catalog, selection, form } = this.#parts;
    for (;;) {
      if (this.#step !== undefined && this.#step.chunk < this.#step.encoded.size) {
        const chunk = this.#step.encoded.chunk(this.#step.chunk);
        this.#step.chunk += 1;
        this.#sentAny = true;
        return chunk;
      }
      if (this.#step !== undefined) {
        this.#step = undefined;
        this.#told += 1;
      }
      const step = this.behind ? undefined : catalog.stepAfter(this.#told);
      if (step === undefined) {
        return this.#bookmarkDue && !this.behind ? this.#bookmark() : undefined;
      }
      const last = step.ordinal === this.#now.ordinal;
      this.#step = { encoded: encodedStep(step, selection, form, !this.#sentAny, last), chunk: 0 };
    }
  }

  #bookmark(): Uint8Array<ArrayBuffer> {
    const initialEnd = this.#markEnd;
    this.#bookmarkDue = false;
    this.#markEnd = false;
    const first = !this.#sentAny;
    this.#sentAny = true;
    const { form, catalog } = this.#parts;
    return Buffer.from(bookmarkLine(form, catalog.versionAt(this.#told), initialEnd, first));
  }

  *#added({ items }: FleetVersion): Generator<string, void, undefined> {
    const { selection, form } = this.#parts;
    const [from, to] = rangeOf(items, selection.namespace);
    for (let at = from; at < to; at += 1) {
      const item = items[at];
      if (item !== undefined && (selection.all || selection.matches(item.sandbox))) {
        yield eventLine("ADDED", form.single(item, !this.#sentAny));
        this.#sentAny = true;
      } else if (at % LOOKS_PER_TEXT === 0) {
        yield "";
      }
    }
  }
}
