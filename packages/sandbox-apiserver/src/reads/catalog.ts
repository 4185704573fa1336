import { randomInt } from "node:crypto";
import { compareSandboxes, hasSameContent } from "@org/scale";
import type { Sandbox, SandboxStore } from "@org/scale";
import { itemOf, versionOf } from "./item.ts";
import type { Item, TextCache } from "./item.ts";
import type { Change, Step } from "./step.ts";

/** The fleet at one time, in the order of lists. Immutable. */
export interface FleetVersion {
  /** How many changes of the fleet were seen before this one. */
  readonly ordinal: number;
  /** The same for clients: decimal, and greater than that of every earlier version of this process. */
  readonly version: string;
  readonly items: readonly Item[];
}

/** A sandbox that left or changed, and the place in the new list where it stood. */
interface Touched {
  readonly place: number;
  readonly sandbox: Sandbox;
}

/** Options of a {@link Catalog}. */
export interface CatalogOptions {
  readonly store: Pick<SandboxStore, "list">;
  readonly texts: TextCache;
  /** The wall clock in milliseconds, read once. */
  readonly clock: () => number;
  /** How many changes are remembered. The last step is remembered whatever its size. */
  readonly maxChanges: number;
  /** How many steps are remembered. */
  readonly maxSteps: number;
}

/** Digits that tell the versions of two processes apart. */
const TAG_DIGITS = 5;
const DECIMAL = /^\d+$/;

/**
 * The versions of the fleet, and what changed between the last ones: worked out once for all that read. Versions are
 * counted from the time of the start in milliseconds; behind the count stand digits that another process does not have,
 * so that its versions are not mistaken for ours.
 */
export class Catalog {
  readonly #options: CatalogOptions;
  readonly #startMs: number;
  readonly #tag: string = String(randomInt(10 ** TAG_DIGITS)).padStart(TAG_DIGITS, "0");
  #sandboxes: readonly Sandbox[] = [];
  #current: FleetVersion;
  /** In order and without a gap; the last one led to the current version. */
  #steps: Step[] = [];
  #remembered = 0;

  constructor(options: CatalogOptions) {
    this.#options = options;
    this.#startMs = Math.trunc(options.clock());
    this.#sandboxes = options.store.list();
    const items = this.#sandboxes.map((sandbox) => this.#enter(sandbox));
    this.#current = { ordinal: 0, version: this.versionAt(0), items };
  }

  /** The fleet now. Costs a look unless something changed, else a pass over the fleet. */
  current(): FleetVersion {
    const next = this.#options.store.list();
    if (next !== this.#sandboxes) {
      const { items, changes } = this.#compare(next);
      this.#sandboxes = next;
      if (changes.length > 0) {
        this.#advance(items, changes);
      }
    }
    return this.#current;
  }

  /** The version that was current last, without a look at the store. */
  get last(): FleetVersion {
    return this.#current;
  }

  /** The oldest version from which every change is known. */
  get oldestOrdinal(): number {
    return this.#current.ordinal - this.#steps.length;
  }

  /** The step that follows a version; `undefined` for the current one. Older ones must be known. */
  stepAfter(ordinal: number): Step | undefined {
    return this.#steps[ordinal - this.oldestOrdinal];
  }

  /**
   * The version from which a client that holds this one must be told: its own, or the one before the first step that
   * showed an object of this version. `undefined` when what changed since is not known.
   */
  ordinalOf(version: string): number | undefined {
    if (!DECIMAL.test(version)) {
      return undefined;
    }
    if (version.endsWith(this.#tag)) {
      const ordinal = Number(version.slice(0, -TAG_DIGITS)) - this.#startMs;
      if (ordinal >= this.oldestOrdinal && ordinal <= this.#current.ordinal) {
        return ordinal;
      }
    }
    // Events of sandboxes that are there carry the version of their content, and clients resume from the last they saw.
    const shows = ({ after }: Change): boolean => after !== undefined && versionOf(after) === version;
    const step = this.#steps.find(({ changes }) => changes.some(shows));
    return step && step.ordinal - 1;
  }

  /** The version that clients see for an ordinal. */
  versionAt(ordinal: number): string {
    return `${this.#startMs + ordinal}${this.#tag}`;
  }

  #enter(sandbox: Sandbox): Item {
    const item = itemOf(sandbox);
    this.#options.texts.enter(item);
    return item;
  }

  #advance(items: readonly Item[], changes: readonly Change[]): void {
    const ordinal = this.#current.ordinal + 1;
    const version = this.versionAt(ordinal);
    this.#current = { ordinal, version, items };
    for (const encoded of this.#steps.at(-1)?.encoded.values() ?? []) {
      encoded.release();
    }
    this.#steps.at(-1)?.encoded.clear();
    this.#steps.push({ ordinal, version, changes, encoded: new Map() });
    this.#remembered += changes.length;
    const { maxChanges, maxSteps } = this.#options;
    let forgotten = 0;
    while (
      this.#steps.length - forgotten > 1 &&
      (this.#remembered > maxChanges || this.#steps.length - forgotten > maxSteps)
    ) {
      this.#remembered -= this.#steps[forgotten]?.changes.length ?? 0;
      forgotten += 1;
    }
    this.#steps.splice(0, forgotten);
  }

  /** Walks the old and the new list together: most sandboxes are the same objects in both. */
  #compare(next: readonly Sandbox[]): { readonly items: readonly Item[]; readonly changes: readonly Change[] } {
    const before = this.#sandboxes;
    const { items: oldItems } = this.#current;
    // A copy has its size from the beginning, which an array that grows has not.
    const items = oldItems.slice(0, next.length);
    const changes: Change[] = [];
    const touched: Touched[] = [];
    let at = 0;
    let end = 0;
    while (at < before.length || end < next.length) {
      const old = before[at];
      const now = next[end];
      if (old !== undefined && old === now) {
        items[end] = oldItems[at] as Item;
        at += 1;
        end += 1;
        continue;
      }
      const order = old === undefined ? 1 : now === undefined ? -1 : compareSandboxes(old, now);
      if (order < 0) {
        const gone = oldItems[at] as Item;
        this.#options.texts.leave(gone);
        changes.push({ before: gone, after: undefined });
        touched.push({ place: end, sandbox: gone.sandbox });
        at += 1;
        continue;
      }
      let item: Item;
      if (order > 0) {
        item = this.#enter(now as Sandbox);
        changes.push({ before: undefined, after: item });
      } else {
        item = oldItems[at] as Item;
        at += 1;
        if (!looksSame(item.sandbox, now as Sandbox)) {
          const known = item;
          item = this.#enter(now as Sandbox);
          this.#options.texts.leave(known);
          changes.push({ before: known, after: item });
          touched.push({ place: end, sandbox: known.sandbox });
        }
      }
      items[end] = item;
      end += 1;
    }
    addNamesakes(items, changes, touched);
    return { items, changes };
  }
}

/** Whether answers show two sandboxes of one place alike. */
function looksSame(a: Sandbox, b: Sandbox): boolean {
  return (
    hasSameContent(a, b) &&
    a.cpuCount === b.cpuCount &&
    a.memoryBytes === b.memoryBytes &&
    (a.metadata === b.metadata || JSON.stringify(a.metadata ?? {}) === JSON.stringify(b.metadata ?? {}))
  );
}

/** Adds the unchanged sandboxes of names of which another sandbox left or changed. */
function addNamesakes(items: readonly Item[], changes: Change[], touched: readonly Touched[]): void {
  const namesakes: Item[] = [];
  for (const { place, sandbox } of touched) {
    const { namespace, name } = sandbox;
    const isNamesake = (item: Item | undefined): item is Item =>
      item !== undefined && item.sandbox.name === name && item.sandbox.namespace === namespace;
    for (let left = place - 1; isNamesake(items[left]); left -= 1) {
      namesakes.push(items[left] as Item);
    }
    for (let right = place; isNamesake(items[right]); right += 1) {
      namesakes.push(items[right] as Item);
    }
  }
  if (namesakes.length === 0) {
    return;
  }
  const changed = new Set(changes.map(({ after }) => after));
  for (const item of namesakes) {
    if (!changed.has(item)) {
      changed.add(item);
      changes.push({ before: item, after: item });
    }
  }
}
