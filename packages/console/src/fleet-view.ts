import type { InventorySource, NodeInventory, Sandbox } from "@org/scale";

/** How many sandboxes the page lists: the newest ones. */
const LISTED = 100;

/** The one call of a store that the console makes. */
export interface ConsoleStore {
  page(options: {
    readonly newestFirst: true;
    readonly limit: number;
  }): Promise<{ readonly sandboxes: readonly Sandbox[] }>;
}

/** A node on the page. */
export interface NodeRow {
  readonly node: string;
  readonly running: number;
  readonly paused: number;
  readonly warm: number;
  readonly target: number;
}

/** A kind of warm sandbox on the page, over all nodes. */
export interface PoolRow {
  readonly template: string;
  readonly net: string;
  readonly size: string;
  readonly warm: number;
  readonly target: number;
  readonly nodes: number;
}

/** A sandbox on the page. Nothing of it lets anybody in. */
export interface SandboxRow {
  readonly id: string;
  readonly namespace: string;
  readonly template: string;
  readonly node: string;
  readonly phase: string;
  /** RFC 3339. */
  readonly startedAt?: string | undefined;
  readonly endsAt?: string | undefined;
}

/** The fleet at one moment. */
export interface FleetView {
  readonly nodes: readonly NodeRow[];
  readonly pools: readonly PoolRow[];
  readonly sandboxes: readonly SandboxRow[];
}

/** Reads the fleet. What a node lists is counted once for each view of it, however many people look. */
export class FleetReader {
  readonly #inventory: InventorySource;
  readonly #store: ConsoleStore;
  readonly #rows = new WeakMap<NodeInventory, NodeRow>();

  constructor(inventory: InventorySource, store: ConsoleStore) {
    this.#inventory = inventory;
    this.#store = store;
  }

  async read(): Promise<FleetView> {
    const views = this.#inventory.listNodes().flatMap((node) => this.#inventory.nodeInventory(node) ?? []);
    const { sandboxes } = await this.#store.page({ newestFirst: true, limit: LISTED });
    return {
      nodes: views.map((view) => this.#row(view)),
      pools: poolRows(views),
      sandboxes: sandboxes.map(sandboxRow),
    };
  }

  #row(view: NodeInventory): NodeRow {
    const known = this.#rows.get(view);
    if (known !== undefined) return known;
    let running = 0;
    for (const { phase } of view.entries) if (phase === "Running") running += 1;
    const row = {
      node: view.node,
      running,
      paused: view.entries.length - running,
      warm: sum(view.pools.map(({ warm }) => warm)),
      target: sum(view.pools.map(({ target }) => target)),
    };
    this.#rows.set(view, row);
    return row;
  }
}

function poolRows(views: readonly NodeInventory[]): PoolRow[] {
  const rows = new Map<string, PoolRow>();
  for (const { pools } of views) {
    for (const { template, net = "none", size = "small", warm, target } of pools) {
      const key = JSON.stringify([template, net, size]);
      const row = rows.get(key) ?? { template, net, size, warm: 0, target: 0, nodes: 0 };
      rows.set(key, { ...row, warm: row.warm + warm, target: row.target + target, nodes: row.nodes + 1 });
    }
  }
  return [...rows.values()].toSorted((a, b) => (a.template < b.template ? -1 : 1));
}

function sandboxRow({ id, namespace, template = "", node, phase, claimedAt, deadline }: Sandbox): SandboxRow {
  return {
    id,
    namespace,
    template,
    node,
    phase,
    ...(claimedAt === undefined ? {} : { startedAt: claimedAt.toISOString() }),
    ...(deadline === undefined ? {} : { endsAt: deadline.toISOString() }),
  };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
