import type { NodeInventory } from "./domain.ts";
import type { InventorySource, Logger } from "./ports.ts";

/** The views of all nodes that can be read now, in the order of nodes. Each is looked up when it is its turn. */
export function* readableViews(source: InventorySource, logger: Logger): Generator<NodeInventory, void, undefined> {
  for (const node of source.listNodes()) {
    const view = source.nodeInventory(node);
    if (view === undefined) {
      noteUnreadable(logger, node);
    } else {
      yield view;
    }
  }
}

/** Says that a list goes without a node. */
export function noteUnreadable(logger: Logger, node: string): void {
  logger.debug(
    { func: "scale.listInventories", node },
    `node inventory unavailable; omitting from list (eventual consistency) node=${node}`,
  );
}
