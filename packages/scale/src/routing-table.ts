import type { NodePools, PoolKey } from "./domain.ts";
import { canonicalPool } from "./pool-key.ts";
import type { InventorySource } from "./ports.ts";

/** A node that may serve a claim, with the warm count that it is weighed by. */
export interface Candidate {
  readonly node: NodePools;
  readonly warm: number;
}

/** Template names come from requests: this many keys are remembered per generation. */
const MAX_KEYS = 256;

/** How many ways there are to write one pool key: a node that lists more of it would only push itself forward. */
const SPELLINGS = 4;

/** Every pool entry with warm sandboxes for this key. A node with two matching entries is there twice, on purpose. */
export function warmCandidates(nodes: readonly NodePools[], pool: PoolKey): readonly Candidate[] {
  const wanted = canonicalPool(pool);
  const candidates: Candidate[] = [];
  for (const node of nodes) {
    if (node.address === "") {
      continue;
    }
    let matches = 0;
    for (const held of node.pools) {
      if (held.warm > 0 && held.template === pool.template && canonicalPool(held) === wanted) {
        candidates.push({ node, warm: held.warm });
        matches += 1;
        if (matches === SPELLINGS) {
          break;
        }
      }
    }
  }
  return candidates;
}

/** Every node that holds a promoted template for this key, once and with equal weight. */
export function templateCandidates(nodes: readonly NodePools[], pool: PoolKey): readonly Candidate[] {
  const wanted = canonicalPool(pool);
  return nodes
    .filter(
      (node) =>
        node.address !== "" &&
        node.templates.some((held) => held.template === pool.template && canonicalPool(held) === wanted),
    )
    .map((node) => ({ node, warm: 1 }));
}

/**
 * Two uniform draws with replacement; the second wins only when it is strictly warmer. `candidates` must not be empty.
 */
export function pickPowerOfTwo(candidates: readonly Candidate[], random: () => number): Candidate | undefined {
  const first = candidates[drawBelow(candidates.length, random)];
  const second = candidates[drawBelow(candidates.length, random)];
  return first !== undefined && second !== undefined && second.warm > first.warm ? second : first;
}

function drawBelow(count: number, random: () => number): number {
  return Math.min(Math.floor(random() * count), count - 1);
}

/** What claims need to know of one snapshot: candidates by key and nodes by address, each worked out once. */
export class RoutingTable {
  readonly #nodes: readonly NodePools[];
  readonly #warm = new Map<string, readonly Candidate[]>();
  readonly #holders = new Map<string, readonly Candidate[]>();
  #byAddress: Map<string, NodePools> | undefined;

  constructor(nodes: readonly NodePools[]) {
    this.#nodes = nodes;
  }

  warm(pool: PoolKey): readonly Candidate[] {
    return remembered(this.#warm, pool, () => warmCandidates(this.#nodes, pool));
  }

  templateHolders(pool: PoolKey): readonly Candidate[] {
    return remembered(this.#holders, pool, () => templateCandidates(this.#nodes, pool));
  }

  /** Those of these nodes that can be asked, once and with equal weight. */
  named(keys: readonly string[]): readonly Candidate[] {
    return this.#nodes
      .filter((node) => node.address !== "" && keys.includes(node.node))
      .map((node) => ({ node, warm: 1 }));
  }

  /** The node that answers at exactly this address. Only what an inventory advertises is ever dialled. */
  nodeAt(address: string): NodePools | undefined {
    this.#byAddress ??= addressMap(this.#nodes);
    return this.#byAddress.get(address);
  }
}

/** The routing table of the source's current generation. */
export class RoutingTables {
  readonly #source: InventorySource;
  #generation: number | undefined;
  #table: RoutingTable = new RoutingTable([]);

  constructor(source: InventorySource) {
    this.#source = source;
  }

  current(): RoutingTable {
    const generation = this.#source.generation;
    if (generation !== this.#generation) {
      this.#table = new RoutingTable(this.#source.nodeCapacities());
      this.#generation = generation;
    }
    return this.#table;
  }
}

function remembered(
  cache: Map<string, readonly Candidate[]>,
  pool: PoolKey,
  make: () => readonly Candidate[],
): readonly Candidate[] {
  const key = canonicalPool(pool);
  const known = cache.get(key);
  if (known !== undefined) {
    return known;
  }
  if (cache.size >= MAX_KEYS) {
    cache.clear();
  }
  const made = make();
  cache.set(key, made);
  return made;
}

function addressMap(nodes: readonly NodePools[]): Map<string, NodePools> {
  const byAddress = new Map<string, NodePools>();
  for (const node of nodes) {
    if (node.address !== "" && !byAddress.has(node.address)) {
      byAddress.set(node.address, node);
    }
  }
  return byAddress;
}
