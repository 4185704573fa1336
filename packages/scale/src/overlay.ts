import type { InventoryEntry, Phase } from "./domain.ts";
import type { InventorySource } from "./ports.ts";
import { qualifiedName } from "./sandbox-view.ts";
import { isCanonicalId } from "./view-index.ts";

/** What we wrote to one sandbox. Times are `performance.now()` when the node's answer arrived. */
interface Patch {
  lastAt: number;
  goneAt?: number;
  made?: { readonly entry: InventoryEntry; readonly at: number };
  phase?: { readonly value: Phase; readonly at: number };
  lease?: { readonly deadline: Date | undefined; readonly at: number };
  /** What was last made of a listed entry and the parts that counted, so that the same parts make the same object. */
  merged?: Merged;
}

interface Merged {
  readonly base: InventoryEntry;
  readonly phase: Patch["phase"] | undefined;
  readonly lease: Patch["lease"] | undefined;
  readonly entry: InventoryEntry;
}

/** Our writes to one node. */
interface NodeWrites {
  /** The view that the writes were last compared with. */
  asOfMs: number | undefined;
  /** The overlay's version at the last change of what these writes add to the view. */
  version: number;
  /** When the last of them was made. */
  lastAt: number;
  readonly patches: Map<string, Patch>;
  /** Ids we claimed, by qualified name. */
  readonly madeByName: Map<string, Set<string>>;
  /** Ids we claimed that only a predicate can compare. */
  readonly unusual: Set<string>;
}

const DEFAULT_MAX_PATCHES = 65_536;
/** How long a node that cannot be read keeps its writes: it may come back with an old view, but not after so long. */
const ABSENT_MS = 15 * 60_000;
const NO_IDS: ReadonlySet<string> = new Set();

/**
 * Our own writes, laid over inventory that may be older than they are. Each write counts until the owning node's view
 * was read after the node's answer; then the view itself must show it. Memory is bounded: beyond `maxPatches` the
 * longest kept node's oldest write is given up, which only brings back the snapshot's own age.
 */
export class Overlay {
  readonly #source: InventorySource;
  readonly #max: number;
  readonly #nodes = new Map<string, NodeWrites>();
  #size = 0;
  #version = 0;
  #changedId: (node: string, id: string) => void = () => undefined;
  #changedVersion: () => void = () => undefined;

  constructor(source: InventorySource, maxPatches: number = DEFAULT_MAX_PATCHES) {
    this.#source = source;
    this.#max = maxPatches;
  }

  /** Grows with every change of what this overlay adds to the views it was last compared with. */
  get version(): number {
    return this.#version;
  }

  /** The version of the last change of what this overlay adds to one node's view; 0 when it adds nothing. */
  versionOn(node: string): number {
    return this.#nodes.get(node)?.version ?? 0;
  }

  /** Calls the listener, one at most, before each write to a sandbox counts and after the last one was forgotten. */
  onChange(listener: (node: string, id: string) => void): void {
    this.#changedId = listener;
  }

  /** Calls the listener, one at most, whenever {@link version} grew. It must not read or write here. */
  onVersion(listener: () => void): void {
    this.#changedVersion = listener;
  }

  /** How many sandboxes have a write that may still count. */
  get size(): number {
    return this.#size;
  }

  claimed(node: string, entry: InventoryEntry): void {
    const { writes, patch } = this.#write(node, entry.id);
    patch.made = { entry, at: patch.lastAt };
    const name = qualifiedName(entry.name);
    const ids = writes.madeByName.get(name);
    if (ids === undefined) {
      writes.madeByName.set(name, new Set([entry.id]));
    } else {
      ids.add(entry.id);
    }
    if (!isCanonicalId(entry.id)) {
      writes.unusual.add(entry.id);
    }
  }

  released(node: string, id: string): void {
    const { patch } = this.#write(node, id);
    patch.goneAt = patch.lastAt;
  }

  phase(node: string, id: string, value: Phase): void {
    const { patch } = this.#write(node, id);
    patch.phase = { value, at: patch.lastAt };
  }

  renewed(node: string, id: string, deadline: Date | undefined): void {
    const { patch } = this.#write(node, id);
    patch.lease = { deadline, at: patch.lastAt };
  }

  /** Nodes that hold writes of ours. */
  nodes(): Iterable<string> {
    return this.#nodes.keys();
  }

  /** Ids that we wrote to on a node. */
  idsOn(node: string): Iterable<string> {
    return this.#nodes.get(node)?.patches.keys() ?? NO_IDS;
  }

  /** Whether we wrote to a sandbox on a node. */
  wroteTo(node: string, id: string): boolean {
    return this.#nodes.get(node)?.patches.has(id) ?? false;
  }

  /** Ids that we claimed on a node under a qualified name. */
  claimedAs(node: string, qualified: string): ReadonlySet<string> {
    return this.#nodes.get(node)?.madeByName.get(qualified) ?? NO_IDS;
  }

  /** Ids that we claimed on a node and that only a caller's predicate can compare. */
  unusualOn(node: string): ReadonlySet<string> {
    return this.#nodes.get(node)?.unusual ?? NO_IDS;
  }

  /** Whether data read at `asOfMs` may still show a sandbox that we released. */
  isGone(node: string, id: string, asOfMs: number): boolean {
    return counts(this.#nodes.get(node)?.patches.get(id)?.goneAt, asOfMs);
  }

  /**
   * What a sandbox looks like with our writes: `listed` is what data read at `asOfMs` says of it. `undefined` when
   * there is none, or we released it.
   */
  resolve(node: string, id: string, listed: InventoryEntry | undefined, asOfMs: number): InventoryEntry | undefined {
    const patch = this.#nodes.get(node)?.patches.get(id);
    if (patch === undefined) {
      return listed;
    }
    if (counts(patch.goneAt, asOfMs)) {
      return undefined;
    }
    const base = listed ?? (counts(patch.made?.at, asOfMs) ? patch.made?.entry : undefined);
    if (base === undefined) {
      return undefined;
    }
    const phase = counts(patch.phase?.at, asOfMs) ? patch.phase : undefined;
    const lease = counts(patch.lease?.at, asOfMs) ? patch.lease : undefined;
    if (phase === undefined && lease === undefined) {
      return base;
    }
    const { merged } = patch;
    if (merged?.base === base && merged.phase === phase && merged.lease === lease) {
      return merged.entry;
    }
    const entry: InventoryEntry = {
      ...base,
      phase: phase === undefined ? base.phase : phase.value,
      deadline: lease === undefined ? base.deadline : lease.deadline,
    };
    patch.merged = { base, phase, lease, entry };
    return entry;
  }

  /**
   * Compares all writes with the current views and forgets those that every later view shows by itself, and those to
   * nodes that are long gone. Does work only for nodes whose view is new.
   */
  prune(): void {
    for (const [node, writes] of this.#nodes) {
      this.#pruneNode(node, writes);
    }
  }

  /** The same for one node. */
  pruneOn(node: string): void {
    const writes = this.#nodes.get(node);
    if (writes !== undefined) {
      this.#pruneNode(node, writes);
    }
  }

  #pruneNode(node: string, writes: NodeWrites): void {
    const asOfMs = this.#source.nodeInventory(node)?.asOfMs;
    if (asOfMs === undefined) {
      if (performance.now() - writes.lastAt > ABSENT_MS) {
        this.#forgetAll(node, writes);
      }
      return;
    }
    if (asOfMs === writes.asOfMs) {
      return;
    }
    // Also a write that stays may have lost a part: whoever laid these writes over the last view must do it again.
    this.#changed(writes);
    writes.asOfMs = asOfMs;
    for (const [id, patch] of writes.patches) {
      if (!counts(patch.lastAt, asOfMs)) {
        this.#forget(node, writes, id, patch);
      }
    }
  }

  #write(node: string, id: string): { writes: NodeWrites; patch: Patch } {
    let writes = this.#nodes.get(node);
    if (writes !== undefined) {
      this.#pruneNode(node, writes);
    }
    writes ??= {
      asOfMs: undefined,
      version: 0,
      lastAt: 0,
      patches: new Map(),
      madeByName: new Map(),
      unusual: new Set(),
    };
    // Pruning may have let go of it.
    this.#nodes.set(node, writes);
    const at = performance.now();
    let patch = writes.patches.get(id);
    if (patch === undefined) {
      if (this.#size >= this.#max) {
        this.#forgetOldest();
        this.#nodes.set(node, writes);
      }
      patch = { lastAt: at };
      writes.patches.set(id, patch);
      this.#size += 1;
    }
    patch.lastAt = at;
    writes.lastAt = at;
    this.#changed(writes);
    this.#changedId(node, id);
    return { writes, patch };
  }

  #forgetAll(node: string, writes: NodeWrites): void {
    for (const [id, patch] of writes.patches) {
      this.#forget(node, writes, id, patch);
    }
  }

  #forgetOldest(): void {
    for (const [node, writes] of this.#nodes) {
      for (const [id, patch] of writes.patches) {
        this.#forget(node, writes, id, patch);
        return;
      }
    }
  }

  #forget(node: string, writes: NodeWrites, id: string, patch: Patch): void {
    writes.patches.delete(id);
    writes.unusual.delete(id);
    if (patch.made !== undefined) {
      const name = qualifiedName(patch.made.entry.name);
      const ids = writes.madeByName.get(name);
      ids?.delete(id);
      if (ids?.size === 0) {
        writes.madeByName.delete(name);
      }
    }
    if (writes.patches.size === 0) {
      this.#nodes.delete(node);
    }
    this.#size -= 1;
    this.#changed(writes);
    this.#changedId(node, id);
  }

  #changed(writes: NodeWrites): void {
    this.#version += 1;
    writes.version = this.#version;
    this.#changedVersion();
  }
}

/** Whether a write at `at` is not certain to be part of data whose read began at `asOfMs`. */
function counts(at: number | undefined, asOfMs: number): boolean {
  return at !== undefined && at >= asOfMs;
}
