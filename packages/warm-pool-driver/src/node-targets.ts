import type { NodePools } from "@org/scale";
import { compare, compareKeys, keyText, type FullKey } from "./pool-keys.ts";
import type { PoolWish } from "./pool-wishes.ts";
import { spread } from "./shares.ts";

/** One pool of a node: how many sandboxes shall be warm. */
export interface PoolTarget extends FullKey {
  readonly warm: number;
}

/** All pools that a node shall have; it drops the others. */
export interface NodeTargets {
  readonly node: string;
  readonly address: string;
  readonly pools: readonly PoolTarget[];
}

/**
 * What each node shall keep warm: every pool's replicas are spread over the nodes that have an address, in the order of
 * their names, and pools with one key add up. Kube specification §5.
 */
export function nodeTargets(nodes: readonly NodePools[], wishes: readonly PoolWish[]): NodeTargets[] {
  const reachable = nodes.filter(({ address }) => address !== "").toSorted((a, b) => compare(a.node, b.node));
  const wanted = wishes.flatMap(({ pool, key }) =>
    key === undefined ? [] : [{ key, parts: spread(pool.replicas ?? 0, reachable.length) }],
  );
  return reachable.map(({ node, address }, at) => {
    const pools = new Map<string, PoolTarget>();
    for (const { key, parts } of wanted) {
      const text = keyText(key);
      const { template, net, size } = key;
      pools.set(text, { template, net, size, warm: (pools.get(text)?.warm ?? 0) + (parts[at] ?? 0) });
    }
    return { node, address, pools: [...pools.values()].toSorted(compareKeys) };
  });
}
