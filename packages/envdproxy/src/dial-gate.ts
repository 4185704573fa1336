interface Entrance {
  running: number;
  /** Oldest first. */
  readonly waiting: Set<() => void>;
}

/**
 * Lets so many dials at a time through to each port. A guest accepts one connection after the other from a queue that is
 * short, and refuses what does not fit: without a gate a burst of calls would be told that nobody listens.
 */
export class DialGate {
  readonly #max: number;
  readonly #entrances = new Map<string, Entrance>();

  constructor(max: number) {
    this.#max = max;
  }

  /**
   * Waits for a place, in the order of arrival. Resolves with the function that gives it back, and whether it was waited
   * for. Once `signal` aborts it does not wait any longer; the place is to be given back all the same.
   */
  async enter(key: string, signal: AbortSignal): Promise<{ readonly leave: () => void; readonly waited: boolean }> {
    let entrance = this.#entrances.get(key);
    if (entrance === undefined) {
      entrance = { running: 0, waiting: new Set() };
      this.#entrances.set(key, entrance);
    }
    const { waiting } = entrance;
    const waited = entrance.running >= this.#max && !signal.aborted;
    if (waited) {
      await new Promise<void>((resolve) => {
        const go = (): void => {
          waiting.delete(go);
          signal.removeEventListener("abort", go);
          resolve();
        };
        waiting.add(go);
        signal.addEventListener("abort", go, { once: true });
      });
    }
    entrance.running += 1;
    return { leave: () => this.#leave(key, entrance), waited };
  }

  #leave(key: string, entrance: Entrance): void {
    entrance.running -= 1;
    const next = entrance.running < this.#max ? entrance.waiting.values().next().value : undefined;
    if (next !== undefined) {
      next();
    } else if (entrance.running === 0 && entrance.waiting.size === 0) {
      this.#entrances.delete(key);
    }
  }
}
