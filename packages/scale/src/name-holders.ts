/** How many claims of each name each node holds. Nearly every name has one claim: then its node stands for itself. */
export class NameHolders {
  readonly #holders = new Map<string, string | Map<string, number>>();

  add(name: string, node: string): void {
    const known = this.#holders.get(name);
    if (known === undefined) {
      this.#holders.set(name, node);
      return;
    }
    const counts = countsOf(known);
    counts.set(node, (counts.get(node) ?? 0) + 1);
    this.#holders.set(name, counts);
  }

  remove(name: string, node: string): void {
    const known = this.#holders.get(name);
    if (known === undefined || typeof known === "string") {
      if (known === node) {
        this.#holders.delete(name);
      }
      return;
    }
    const left = (known.get(node) ?? 0) - 1;
    if (left > 0) {
      known.set(node, left);
    } else if (known.delete(node) && known.size === 0) {
      this.#holders.delete(name);
    }
  }

  /** How many claims of a name there are. */
  count(name: string): number {
    const known = this.#holders.get(name);
    if (known === undefined || typeof known === "string") {
      return known === undefined ? 0 : 1;
    }
    let sum = 0;
    for (const count of known.values()) {
      sum += count;
    }
    return sum;
  }

  /** The nodes that hold claims of a name. */
  nodes(name: string): readonly string[] {
    const known = this.#holders.get(name);
    return known === undefined ? [] : [...countsOf(known).keys()];
  }
}

function countsOf(holders: string | Map<string, number>): Map<string, number> {
  return typeof holders === "string" ? new Map([[holders, 1]]) : holders;
}
