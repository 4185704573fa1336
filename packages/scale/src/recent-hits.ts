import type { Sandbox } from "./domain.ts";
import type { Overlay } from "./overlay.ts";
import type { InventorySource } from "./ports.ts";

/** So many answers are kept at a time. */
const MAX_HITS = 8192;

/** An answer, and the promise that carries it. */
export interface RecentHit {
  readonly sandbox: Sandbox;
  readonly found: Promise<Sandbox>;
  /** The overlay's version on the sandbox's node. */
  readonly version: number;
}

/**
 * Answers out of the snapshot that is current: a sandbox in use is asked for again and again, and nothing of it changes
 * until the snapshot does or we write to its node. Forgets everything with each snapshot, so that it holds none alive.
 */
export class RecentHits {
  readonly #source: InventorySource;
  readonly #overlay: Overlay;
  #generation: number | undefined;
  #hits = new Map<string, RecentHit>();

  constructor(source: InventorySource, overlay: Overlay) {
    this.#source = source;
    this.#overlay = overlay;
  }

  /** What was answered to this key, while it is still true. */
  lookup(key: string): RecentHit | undefined {
    if (this.#source.generation !== this.#generation) {
      return undefined;
    }
    const hit = this.#hits.get(key);
    return hit !== undefined && this.#overlay.versionOn(hit.sandbox.node) === hit.version ? hit : undefined;
  }

  /** Keeps an answer that the current snapshot gives by itself. What we wrote to a sandbox wears off between snapshots. */
  keep(key: string, sandbox: Sandbox): void {
    this.#overlay.pruneOn(sandbox.node);
    if (this.#overlay.wroteTo(sandbox.node, sandbox.id)) {
      return;
    }
    if (this.#source.generation !== this.#generation || this.#hits.size >= MAX_HITS) {
      this.#generation = this.#source.generation;
      this.#hits = new Map();
    }
    const version = this.#overlay.versionOn(sandbox.node);
    this.#hits.set(key, { sandbox, found: Promise.resolve(sandbox), version });
  }
}
