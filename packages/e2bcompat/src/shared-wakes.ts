import type { SandboxStore } from "@org/scale";

/** Wakes sandboxes: one call to the node for all that want the same one at the same time. */
export class SharedWakes {
  readonly #store: Pick<SandboxStore, "resume">;
  readonly #running = new Map<string, Promise<void>>();

  constructor(store: Pick<SandboxStore, "resume">) {
    this.#store = store;
  }

  /** Resolves when the sandbox is awake. Everybody gets the failure of a wake that they share. */
  wake(node: string, id: string): Promise<void> {
    let wake = this.#running.get(id);
    if (wake === undefined) {
      wake = this.#store.resume(node, id).finally(() => this.#running.delete(id));
      this.#running.set(id, wake);
    }
    return wake;
  }
}
