import type { NodeInventory } from "./domain.ts";
import type { Overlay } from "./overlay.ts";
import type { InventorySource, Logger } from "./ports.ts";
import type { ViewIndexes } from "./view-index.ts";

/** Longer than a node takes to boot a guest (90 s), and the inventory to show it. */
const WATCH_MS = 150_000;
const LOOK_MS = 1000;
/** A fleet that answers nothing must not fill memory: the oldest watch is given up. */
const MAX_WATCHES = 4096;

/** What {@link LateClaims} work with. */
export interface LateClaimParts {
  readonly source: InventorySource;
  readonly views: ViewIndexes;
  readonly overlay: Overlay;
  readonly logger: Logger;
  /** Releases a sandbox on its node. */
  readonly release: (node: string, id: string) => Promise<void>;
}

interface Watch {
  readonly node: string;
  readonly claimRef: string;
  /** Sandboxes of this name from before the claim. */
  readonly known: ReadonlySet<string>;
  readonly until: number;
  releasing: boolean;
}

/**
 * Claims that nobody waits for any more and that nodes may deliver all the same. Their sandboxes show up in the
 * inventory, under the name that they were claimed with, and are released then. Asks no node for anything.
 */
export class LateClaims {
  readonly #parts: LateClaimParts;
  readonly #watches = new Set<Watch>();
  readonly #releases = new Set<Promise<void>>();
  #timer: NodeJS.Timeout | undefined;

  constructor(parts: LateClaimParts) {
    this.#parts = parts;
  }

  /** How many claims are watched. */
  get size(): number {
    return this.#watches.size;
  }

  /** Watches one claim. `before` is the node's view from before it was sent. */
  watch(node: string, claimRef: string, before: NodeInventory | undefined): void {
    const { views, overlay } = this.#parts;
    const earlier = before === undefined ? [] : views.of(before).byName(claimRef);
    const known = new Set([...earlier.map((entry) => entry.id), ...overlay.claimedAs(node, claimRef)]);
    for (const oldest of this.#watches.size >= MAX_WATCHES ? this.#watches : []) {
      this.#watches.delete(oldest);
      break;
    }
    this.#watches.add({ node, claimRef, known, until: performance.now() + WATCH_MS, releasing: false });
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref();
  }

  /** Resolves when no release is under way. */
  async settled(): Promise<void> {
    while (this.#releases.size > 0) {
      await Promise.all(this.#releases);
    }
  }

  #look(): void {
    const now = performance.now();
    for (const watch of this.#watches) {
      // Also one whose node lists the sandbox and will not release it: that is left to the lease.
      if (now >= watch.until) {
        this.#watches.delete(watch);
      }
      const id = watch.releasing ? undefined : this.#appeared(watch);
      if (id !== undefined) {
        const release = this.#release(watch, id).finally(() => this.#releases.delete(release));
        this.#releases.add(release);
      }
    }
    if (this.#watches.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
  }

  /** The id of a sandbox that came under the name of a claim. */
  #appeared({ node, claimRef, known }: Watch): string | undefined {
    const { source, views, logger } = this.#parts;
    try {
      const view = source.nodeInventory(node);
      const listed = view === undefined ? [] : views.of(view).byName(claimRef);
      return listed.find(({ id }) => id !== "" && !known.has(id))?.id;
    } catch (error) {
      // Nobody waits for this look: what a source throws would end the process.
      logger.error({ func: "scale.Claim", node, err: error }, "the look for late sandboxes failed");
      return undefined;
    }
  }

  async #release(watch: Watch, id: string): Promise<void> {
    const { release, logger } = this.#parts;
    const fields = { func: "scale.Claim", node: watch.node, id };
    watch.releasing = true;
    try {
      await release(watch.node, id);
      this.#watches.delete(watch);
      logger.info(fields, "released a sandbox whose claim had no answer");
    } catch (error) {
      // The next look tries again.
      watch.releasing = false;
      logger.debug({ ...fields, err: error }, "a sandbox whose claim had no answer was not released");
    }
  }
}
