const DEFAULT_MAX_PER_GENERATION = 8192;

/**
 * Remembers which node was last known to hold a key. A hint, never an authority: nothing is deleted on a miss or a
 * release. Memory is fixed by two generations of at most `maxPerGeneration` keys; when the younger is full it becomes
 * the older, and a hit in the older carries its key over.
 */
export class NodeIndex {
  readonly #max: number;
  #current = new Map<string, string>();
  #previous = new Map<string, string>();

  /** @throws TypeError when `maxPerGeneration` (8192 unless given) is not a positive integer. */
  constructor(maxPerGeneration: number = DEFAULT_MAX_PER_GENERATION) {
    if (!Number.isSafeInteger(maxPerGeneration) || maxPerGeneration < 1) {
      throw new TypeError("maxPerGeneration must be a positive integer");
    }
    this.#max = maxPerGeneration;
  }

  /** How many keys are held. At most twice `maxPerGeneration`. */
  get size(): number {
    return this.#current.size + this.#previous.size;
  }

  /** The node last remembered for `key`. */
  lookup(key: string): string | undefined {
    const current = this.#current.get(key);
    if (current !== undefined) {
      return current;
    }
    const previous = this.#previous.get(key);
    if (previous !== undefined) {
      this.remember(key, previous);
    }
    return previous;
  }

  /** Stores a hint. An empty key or node is ignored. */
  remember(key: string, node: string): void {
    if (key === "" || node === "") {
      return;
    }
    if (this.#current.size >= this.#max) {
      this.#previous = this.#current;
      this.#current = new Map();
    }
    this.#current.set(key, node);
  }
}

/** Index key of a sandbox by name: its qualified name. */
export function nameKey(namespace: string, name: string): string {
  return `${namespace}/${name}`;
}

/**
 * Index key of a sandbox by claim id. The empty namespace stands for all of them and is a key of its own. No name's key
 * begins with a slash.
 */
export function claimKey(namespace: string, id: string): string {
  return `/${namespace}/${id}`;
}
