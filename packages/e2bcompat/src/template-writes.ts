import type { InventorySource, NodePools, PoolKey, PromotedTemplate } from "@org/scale";

/** What we changed of nodes' templates ourselves, until inventory shows it. */
export interface TemplateWrites {
  /** Grows with every change. */
  readonly generation: number;
  /** A node now holds this row under the key, or nothing any more. */
  wrote(node: string, key: PoolKey, row: PromotedTemplate | undefined): void;
  /** A node's rows with our changes laid over those that inventory does not show yet. */
  rowsOf(pools: NodePools): readonly PromotedTemplate[];
}

interface Write {
  readonly row: PromotedTemplate | undefined;
  /** In milliseconds of `performance.now()`. */
  readonly atMs: number;
}

function keyText({ template, net, size }: PoolKey): string {
  return JSON.stringify([template, net || "none", size || "small"]);
}

export function createTemplateWrites(source: InventorySource): TemplateWrites {
  const byNode = new Map<string, Map<string, Write>>();
  let generation = 0;

  /** Changes of a node that its view is too old to show. */
  const pendingOf = (node: string): ReadonlyMap<string, Write> | undefined => {
    const writes = byNode.get(node);
    if (writes === undefined) {
      return undefined;
    }
    const asOfMs = source.nodeInventory(node)?.asOfMs ?? Number.POSITIVE_INFINITY;
    for (const [key, { atMs }] of writes) {
      if (atMs < asOfMs) {
        writes.delete(key);
      }
    }
    if (writes.size === 0) {
      byNode.delete(node);
      return undefined;
    }
    return writes;
  };

  return {
    get generation() {
      return generation;
    },
    wrote(node, key, row) {
      const writes = byNode.get(node) ?? new Map<string, Write>();
      byNode.set(node, writes);
      writes.set(keyText(key), { row, atMs: performance.now() });
      generation += 1;
    },
    rowsOf({ node, templates }) {
      const writes = pendingOf(node);
      if (writes === undefined) {
        return templates;
      }
      const rows = new Map(templates.map((row) => [keyText(row), row]));
      for (const [key, { row }] of writes) {
        if (row === undefined) {
          rows.delete(key);
        } else {
          rows.set(key, row);
        }
      }
      return [...rows.values()];
    },
  };
}
