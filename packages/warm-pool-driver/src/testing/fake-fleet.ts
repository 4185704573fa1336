import type { NodePools, PoolCapacity } from "@org/scale";
import type { SetPools } from "../node-pools.ts";
import type { PoolTarget } from "../node-targets.ts";

/** Nodes in memory: an inventory source, and the call that sets their pools. */
export class FakeFleet {
  #capacities: readonly NodePools[] = [];
  generation = 0;
  readonly puts: { readonly address: string; readonly pools: readonly PoolTarget[] }[] = [];
  /** Runs at once, and the most there were. */
  calls = 0;
  peak = 0;
  /** Called before a node answers. */
  gate: (address: string, signal: AbortSignal) => Promise<void> | void = () => undefined;
  /** What nodes have warm of what they shall have. */
  fill: (warm: number, address: string) => number = (warm) => warm;

  nodeCapacities(): readonly NodePools[] {
    return this.#capacities;
  }

  /** Nodes by name; the address is the name, unless it is said. */
  nodes(...nodes: readonly (string | { node: string; address?: string; pools?: readonly PoolCapacity[] })[]): void {
    this.generation += 1;
    this.#capacities = nodes.map((one) => {
      const { node, address = node, pools = [] } = typeof one === "string" ? { node: one } : one;
      return { node, address, pools, templates: [] };
    });
  }

  readonly setPools: SetPools = async (address, pools, { signal }) => {
    this.calls += 1;
    this.peak = Math.max(this.peak, this.calls);
    try {
      await this.gate(address, signal);
      signal.throwIfAborted();
      this.puts.push({ address, pools });
      return pools.map(({ template, net, size, warm }) => ({
        key: { template, net, size },
        warm: this.fill(warm, address),
      }));
    } finally {
      this.calls -= 1;
    }
  };

  /** The last pools that a node was given, as `template net size warm`. */
  poolsOf(address: string): readonly string[] | undefined {
    return this.puts
      .findLast((put) => put.address === address)
      ?.pools.map(({ template, net, size, warm }) => `${template} ${net} ${size} ${warm}`);
  }
}
