import type { InventoryEntry, InventorySource } from "@org/scale";
import { KEYED_NAME_LENGTH, partsOf } from "./idempotency-key.ts";

/** A sandbox that was made with a key, as inventory lists it. */
export interface KeyedSandbox {
  readonly node: string;
  readonly id: string;
  readonly template: string | undefined;
  readonly fingerprint: string;
}

type ByKey = ReadonlyMap<string, readonly InventoryEntry[]>;

/**
 * Finds sandboxes by the key that they were made with. Each view is looked through once, at its first use; a look-up
 * is one map read for each node.
 */
export class KeyedSandboxes {
  readonly #inventory: Pick<InventorySource, "listNodes" | "nodeInventory">;
  readonly #views = new WeakMap<readonly InventoryEntry[], ByKey>();

  constructor(inventory: Pick<InventorySource, "listNodes" | "nodeInventory">) {
    this.#inventory = inventory;
  }

  find(namespace: string, prefix: string): readonly KeyedSandbox[] {
    const found: KeyedSandbox[] = [];
    const key = `${namespace}/${prefix}`;
    for (const node of this.#inventory.listNodes()) {
      const entries = this.#inventory.nodeInventory(node)?.entries;
      for (const { name, id, template } of (entries && this.#of(entries).get(key)) ?? []) {
        const parts = partsOf(name.slice(namespace.length + 1));
        if (parts !== undefined && id !== "") {
          found.push({ node, id, template, fingerprint: parts.fingerprint });
        }
      }
    }
    return found;
  }

  #of(entries: readonly InventoryEntry[]): ByKey {
    const known = this.#views.get(entries);
    if (known !== undefined) {
      return known;
    }
    const byKey = new Map<string, InventoryEntry[]>();
    for (const entry of entries) {
      // Most names are too short, and then nothing of them is read.
      if (entry.name.length <= KEYED_NAME_LENGTH) {
        continue;
      }
      const cut = entry.name.length - KEYED_NAME_LENGTH;
      const parts = entry.name.charAt(cut - 1) === "/" ? partsOf(entry.name.slice(cut)) : undefined;
      if (parts !== undefined) {
        const key = entry.name.slice(0, cut) + parts.prefix;
        const same = byKey.get(key);
        if (same === undefined) {
          byKey.set(key, [entry]);
        } else {
          same.push(entry);
        }
      }
    }
    this.#views.set(entries, byKey);
    return byKey;
  }
}
