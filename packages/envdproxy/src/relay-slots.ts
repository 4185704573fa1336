/** Options of {@link RelaySlots}. */
export interface RelaySlotsOptions {
  /** Relays of one sandbox at a time; `Infinity` for no limit. */
  readonly perSandbox: number;
  /** Relays at a time; `Infinity` for no limit. */
  readonly total: number;
}

/** Counts open relays against limits. */
export class RelaySlots {
  readonly #perSandbox: number;
  readonly #total: number;
  readonly #bySandbox = new Map<string, number>();
  #open = 0;

  constructor({ perSandbox, total }: RelaySlotsOptions) {
    this.#perSandbox = perSandbox;
    this.#total = total;
  }

  /** Which limit stands in the way of one more. */
  full(sandbox: string): "sandbox" | "total" | undefined {
    if (this.#perSandbox !== Number.POSITIVE_INFINITY && (this.#bySandbox.get(sandbox) ?? 0) >= this.#perSandbox) {
      return "sandbox";
    }
    return this.#open >= this.#total ? "total" : undefined;
  }

  /** Takes a slot. Returns the function that gives it back, once. */
  take(sandbox: string): () => void {
    this.#open += 1;
    this.#count(sandbox, 1);
    let held = true;
    return () => {
      if (held) {
        held = false;
        this.#open -= 1;
        this.#count(sandbox, -1);
      }
    };
  }

  #count(sandbox: string, by: 1 | -1): void {
    if (this.#perSandbox === Number.POSITIVE_INFINITY) {
      return;
    }
    const now = (this.#bySandbox.get(sandbox) ?? 0) + by;
    if (now === 0) {
      this.#bySandbox.delete(sandbox);
    } else {
      this.#bySandbox.set(sandbox, now);
    }
  }
}
