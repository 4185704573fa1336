import type { Overlay } from "./overlay.ts";
import type { InventorySource, Logger } from "./ports.ts";

/** What a {@link ChangeSignal} works with. */
export interface SignalParts {
  readonly source: InventorySource;
  readonly overlay: Overlay;
  readonly logger: Logger;
  /** How often to look by itself: sources may not tell of changes, or change with the clock alone. */
  readonly pollMs: number;
}

/**
 * Tells listeners that reads may show something new: a published snapshot, a write of ours. What comes in one turn of
 * the event loop is told once. While nobody listens nothing runs.
 */
export class ChangeSignal {
  readonly #parts: SignalParts;
  readonly #listeners = new Set<() => void>();
  #generation: number | undefined;
  #overlayVersion: number | undefined;
  #timer: NodeJS.Timeout | undefined;
  #due: NodeJS.Immediate | undefined;
  #leaveSource: () => void = () => undefined;

  constructor(parts: SignalParts) {
    this.#parts = parts;
    parts.overlay.onVersion(() => this.#wake());
  }

  /** Returns the unsubscribe function. */
  subscribe(listener: () => void): () => void {
    // A function that is given twice listens twice.
    const mine = (): void => listener();
    this.#listeners.add(mine);
    if (this.#listeners.size === 1) {
      this.#begin();
    }
    return () => {
      if (this.#listeners.delete(mine) && this.#listeners.size === 0) {
        this.#end();
      }
    };
  }

  #begin(): void {
    const { source, overlay, pollMs } = this.#parts;
    this.#generation = source.generation;
    this.#overlayVersion = overlay.version;
    this.#leaveSource = source.onChange?.(() => this.#wake()) ?? (() => undefined);
    this.#timer = setInterval(() => this.#look(), pollMs);
  }

  #end(): void {
    this.#leaveSource();
    clearInterval(this.#timer);
    clearImmediate(this.#due);
    this.#due = undefined;
  }

  #wake(): void {
    if (this.#listeners.size > 0) {
      this.#due ??= setImmediate(() => {
        this.#due = undefined;
        this.#look();
      });
    }
  }

  #look(): void {
    const { source, overlay, logger } = this.#parts;
    overlay.prune();
    const { generation } = source;
    if (generation === this.#generation && overlay.version === this.#overlayVersion) {
      return;
    }
    this.#generation = generation;
    this.#overlayVersion = overlay.version;
    for (const listener of this.#listeners) {
      try {
        listener();
      } catch (error) {
        logger.error({ func: "scale.onChange", err: error }, "a listener for changes failed");
      }
    }
  }
}
