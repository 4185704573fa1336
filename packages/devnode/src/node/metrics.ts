import { Counter, Gauge, Registry } from "prom-client";
import type { PoolInfo } from "@org/sandboxd-client/wire";

/** How a claim was served. */
export type ClaimTier = "warm" | "clone" | "cold";

/** State that gauges read when somebody asks. */
export interface MetricsState {
  claimed(): number;
  hibernated(): number;
  archived(): number;
  failed(): number;
  draining(): boolean;
  pools(): readonly PoolInfo[];
  /** Live claims by tenant; absent without tenants. */
  readonly tenantClaims?: (() => ReadonlyMap<string, number>) | undefined;
}

/** Counters of one node. Names are those of node API §9.5. */
export interface NodeMetrics {
  claimed(tier: ClaimTier, seconds: number): void;
  woke(seconds: number): void;
  hibernated(): void;
  forked(): void;
  checkpointed(): void;
  promoted(): void;
  released(): void;
  reaped(): void;
  archived(): void;
  unarchived(): void;
  archiveDeleted(): void;
  render(): Promise<string>;
}

/** Registers the instruments in a registry of their own. */
export function createNodeMetrics(state: MetricsState): NodeMetrics {
  const registers = [new Registry()];
  const [registry = new Registry()] = registers;
  const counter = (name: string, help: string): Counter => new Counter({ name, help, registers });
  const gauge = (name: string, help: string, read: () => number): void => {
    const instrument: Gauge = new Gauge({
      name,
      help,
      registers,
      collect: () => instrument.set(read()),
    });
  };
  gauge("sandboxd_claimed", "Live claims, paused ones included.", () => state.claimed());
  gauge("sandboxd_hibernated", "Hibernated claims.", () => state.hibernated());
  gauge("sandboxd_archived", "Archived claims.", () => state.archived());
  gauge("sandboxd_failed", "Claims whose guest ended by itself.", () => state.failed());
  gauge("sandboxd_draining", "1 while the node is drained.", () => (state.draining() ? 1 : 0));
  const { tenantClaims } = state;
  if (tenantClaims !== undefined) {
    const tenants: Gauge = new Gauge({
      name: "sandboxd_tenant_claims",
      help: "Live claims by tenant.",
      labelNames: ["tenant"],
      registers,
      collect: () => {
        tenants.reset();
        for (const [tenant, count] of tenantClaims()) {
          tenants.set({ tenant }, count);
        }
      },
    });
  }
  const poolGauge = (name: string, help: string, read: (pool: PoolInfo) => number): void => {
    const instrument: Gauge<"template" | "net" | "size"> = new Gauge({
      name,
      help,
      labelNames: ["template", "net", "size"],
      registers,
      collect: () => {
        instrument.reset();
        for (const pool of state.pools()) {
          const { template, net, size } = pool.key;
          instrument.set({ template, net, size }, read(pool));
        }
      },
    });
  };
  poolGauge("sandboxd_pool_warm", "Ready guests by pool.", (pool) => pool.warm);
  poolGauge("sandboxd_pool_target", "Wanted guests by pool.", (pool) => pool.target);

  const claims = new Counter({
    name: "sandboxd_claims_total",
    help: "Delivered claims by how they were served.",
    labelNames: ["tier"],
    registers,
  });
  for (const tier of ["warm", "clone", "cold"]) {
    claims.inc({ tier }, 0);
  }
  const claimSeconds = counter("sandboxd_claim_seconds_total", "Time spent on delivered claims.");
  const wakeSeconds = counter("sandboxd_wake_seconds_total", "Time spent on wakes.");
  const wakes = counter("sandboxd_wakes_total", "Wakes of paused sandboxes.");
  const hibernates = counter("sandboxd_hibernates_total", "Hibernations.");
  const forks = counter("sandboxd_forks_total", "Forks.");
  const checkpoints = counter("sandboxd_checkpoints_total", "Checkpoints taken.");
  const promotes = counter("sandboxd_promotes_total", "Promotions of a sandbox to a template.");
  const releases = counter("sandboxd_releases_total", "Releases by request.");
  const reaps = counter("sandboxd_reaps_total", "Sandboxes destroyed at the end of their lease.");
  const archives = counter("sandboxd_archives_total", "Sandboxes archived.");
  const unarchives = counter("sandboxd_unarchives_total", "Wakes from the archive.");
  const archiveDeletes = counter("sandboxd_archive_deletes_total", "Archived sandboxes purged.");
  const micros = (seconds: number): number => Math.round(Math.max(0, seconds) * 1e6) / 1e6;
  return {
    claimed: (tier, seconds) => {
      claims.inc({ tier });
      claimSeconds.inc(micros(seconds));
    },
    woke: (seconds) => {
      wakes.inc();
      wakeSeconds.inc(micros(seconds));
    },
    hibernated: () => hibernates.inc(),
    forked: () => forks.inc(),
    checkpointed: () => checkpoints.inc(),
    promoted: () => promotes.inc(),
    released: () => releases.inc(),
    reaped: () => reaps.inc(),
    archived: () => archives.inc(),
    unarchived: () => unarchives.inc(),
    archiveDeleted: () => archiveDeletes.inc(),
    render: () => registry.metrics(),
  };
}
