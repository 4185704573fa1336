import type { Duplex } from "node:stream";
import type {
  CheckpointRecord,
  FullPoolKey,
  InfoReply,
  PoolsRequest,
  RedirectReply,
  RenewRequest,
  SandboxRow,
  StringMap,
} from "@org/sandboxd-client/wire";
import type { CaptureStore } from "../host/capture-store.ts";
import type { Trees } from "../host/trees.ts";
import type { DevNodeLogger } from "../logger.ts";
import type { Caller, Tenant } from "./access.ts";
import { createCaptures, type Captures } from "./captures.ts";
import { createCheckpoints, readCheckpoint } from "./checkpoints.ts";
import { checkMetadata, grantLease, readOnExpire } from "./claim-rules.ts";
import { checkLane, createClaims, type Claims } from "./claims.ts";
import { createDelivery } from "./delivery.ts";
import { createNodeMetrics, type NodeMetrics } from "./metrics.ts";
import type { Peers } from "./peers.ts";
import { readPools } from "./pool-rules.ts";
import type { Pools } from "./pools.ts";
import { createReaper } from "./reaper.ts";
import { Refusal } from "./refusal.ts";
import { createRoster } from "./roster.ts";
import type { Sandbox, SandboxState } from "./sandbox.ts";
import { createTemplates, readTemplate, type Template } from "./templates.ts";

/** Options of {@link createNode}. */
export interface NodeOptions {
  readonly pools: Pools;
  readonly peers: Peers;
  readonly captures: CaptureStore;
  readonly trees: Pick<Trees, "digest">;
  /** Client address, the same wherever this node is named. */
  readonly address: () => string | undefined;
  /** There is a way out for the egress lane. */
  readonly egressLane: boolean;
  /** What an egress-lane claim reports as its route. */
  readonly egressRoute: "relay" | "direct";
  readonly maxClaims: number;
  readonly tenants: readonly Tenant[];
  /** Refuse keys that no pool serves. */
  readonly refuseUnpooled: boolean;
  readonly reapIntervalMs: number;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly logger: DevNodeLogger;
}

/** Filters of the index. */
export interface IndexFilter {
  readonly claimRef: string;
  readonly metadata: ReadonlyMap<string, string>;
  /** Absent: every owner. */
  readonly tenant?: string | undefined;
}

/** The node behind its HTTP routes. Every rejection that a client causes is a {@link Refusal}. */
export interface Node extends Claims, Captures {
  readonly metrics: NodeMetrics;
  find(id: string): Sandbox | undefined;
  list(filter: IndexFilter): readonly SandboxRow[];
  release(sandbox: Sandbox): Promise<void>;
  hibernate(sandbox: Sandbox): Promise<void>;
  wake(sandbox: Sandbox): Promise<void>;
  renew(sandbox: Sandbox, request: RenewRequest): number;
  /** Opens a relay; a paused sandbox is woken by an active one. */
  dial(sandbox: Sandbox, port: number, active: boolean, signal: AbortSignal): Promise<Duplex>;
  /** Checkpoints that this caller may see, newest first. */
  checkpoints(caller: Caller): readonly CheckpointRecord[];
  holdsCheckpoint(id: string): boolean;
  /** Deletes a checkpoint here and, when asked to, tells the peers. */
  deleteCheckpoint(id: string, caller: Caller, forward: boolean): Promise<void>;
  /** Deletes a template here; one that only peers hold is a redirect, where one may be given. */
  deleteTemplate(target: TemplateTarget, caller: Caller, mayRedirect: boolean): Promise<RedirectReply | undefined>;
  labelTemplate(target: TemplateTarget, caller: Caller, labels: StringMap): Promise<void>;
  /** The template that a pool of this key is filled from. */
  poolTemplate(key: FullPoolKey): Template | undefined;
  info(): InfoReply;
  configurePools(request: PoolsRequest): Promise<InfoReply>;
  drain(on: boolean): Promise<InfoReply>;
  /** Looks at leases now, instead of at the next tick. */
  reap(): Promise<void>;
  close(): Promise<void>;
}

/** A template that is to be changed. */
export interface TemplateTarget {
  readonly key: FullPoolKey;
  /** Only the build with this digest; empty for whichever there is. */
  readonly digest: string;
}

/** Makes a node without pools. */
export function createNode(options: NodeOptions): Node {
  const { pools, peers, captures: store, trees, now, logger, egressLane } = options;
  const roster = createRoster(options);
  let closed = false;
  const count = (state: SandboxState): number => roster.count(state);
  const metrics = createNodeMetrics({
    claimed: () => roster.size,
    hibernated: () => count("hibernated"),
    archived: () => count("archived"),
    failed: () => count("failed"),
    draining: () => roster.draining,
    pools: () => pools.snapshot(),
    ...(options.tenants.length === 0
      ? {}
      : { tenantClaims: () => new Map(options.tenants.map(({ name }) => [name, roster.claimsOf(name)])) }),
  });
  const templates = createTemplates(
    store.found.map(readTemplate).filter((template) => template !== undefined),
    pools,
    logger,
  );
  const checkpoints = createCheckpoints(
    store.found.map(readCheckpoint).filter((checkpoint) => checkpoint !== undefined),
  );
  const shared = {
    pools,
    roster,
    templates,
    checkpoints,
    metrics,
    deliver: createDelivery({ ...options, roster }),
    closed: () => closed,
  };
  const claims = createClaims({ ...shared, peers, egressLane, refuseUnpooled: options.refuseUnpooled });
  const captures = createCaptures({ ...shared, store, trees, now });

  const hibernate = async (sandbox: Sandbox): Promise<void> => {
    if (await sandbox.hibernate()) {
      metrics.hibernated();
    }
  };
  const noteWake = (before: SandboxState, began: number): void => {
    if (before === "running") {
      return;
    }
    metrics.woke((performance.now() - began) / 1000);
    if (before === "archived") {
      metrics.unarchived();
    }
  };
  const reaper = createReaper({ roster, pools, metrics, hibernate, now, logger });
  const timer = setInterval(() => void reaper.reap(), options.reapIntervalMs);
  timer.unref();

  const node: Node = {
    ...claims,
    ...captures,
    metrics,
    find: (id) => roster.find(id),
    reap: () => reaper.reap(),
    hibernate,

    list: (filter) => {
      const rows: SandboxRow[] = [];
      for (const sandbox of roster.all()) {
        const { claimRef, metadata, tenant } = sandbox.facts;
        if (
          (filter.claimRef === "" || claimRef === filter.claimRef) &&
          (filter.tenant === undefined || tenant === filter.tenant) &&
          [...filter.metadata].every(([key, value]) => Object.hasOwn(metadata, key) && metadata[key] === value)
        ) {
          rows.push(sandbox.row());
        }
      }
      return rows;
    },

    release: async (sandbox) => {
      if (!roster.remove(sandbox.id)) {
        throw new Refusal(404, "unknown sandbox");
      }
      metrics.released();
      await sandbox.release();
    },

    wake: async (sandbox) => {
      const began = performance.now();
      sandbox.touch();
      noteWake(await sandbox.wake(), began);
    },

    renew: (sandbox, request) => sandbox.renew(grantLease(request.ttl_seconds), readOnExpire(request.on_expire)),

    dial: async (sandbox, port, active, signal) => {
      if (active && (sandbox.paused || sandbox.inTransition)) {
        const began = performance.now();
        try {
          noteWake(await sandbox.wake(), began);
        } catch (cause) {
          throw cause instanceof Refusal ? cause : new Refusal(502, "guest port unreachable", { cause });
        }
      }
      return await sandbox.dial(port, active, signal);
    },

    checkpoints: (caller) => checkpoints.list(caller),
    holdsCheckpoint: (id) => checkpoints.find(id) !== undefined,
    deleteCheckpoint: async (id, caller, forward) => {
      if (!(await checkpoints.remove(id, caller))) {
        throw new Refusal(404, "unknown checkpoint");
      }
      if (forward) {
        peers.forgetCheckpoint(id);
      }
    },

    deleteTemplate: async ({ key, digest }, caller, mayRedirect) => {
      if (await templates.remove(key, caller, digest)) {
        return undefined;
      }
      const owners = mayRedirect ? peers.ownersOf(key, caller) : [];
      if (owners.length === 0) {
        throw new Refusal(404, "unknown template");
      }
      return { redirect: owners };
    },
    labelTemplate: async ({ key, digest }, caller, labels) => {
      checkMetadata(labels, "label");
      await templates.label(key, caller, digest, labels);
    },
    poolTemplate: (key) => templates.common(key),

    info: () => {
      const address = options.address();
      const failed = count("failed");
      const { parked } = pools;
      return {
        pools: pools.snapshot(),
        templates: templates.list(),
        claimed: roster.size,
        hibernated: count("hibernated"),
        archived: count("archived"),
        ...(failed > 0 ? { failed } : {}),
        ...(roster.draining ? { draining: true } : {}),
        ...(address === undefined ? {} : { advertise_addr: address }),
        peers: peers.addresses,
        ...(parked === undefined ? {} : { at_capacity: true, at_capacity_reason: parked }),
      };
    },

    configurePools: async (request) => {
      await pools.configure(readPools(request, (key) => checkLane(key, egressLane)));
      return node.info();
    },

    drain: async (on) => {
      roster.draining = on;
      await pools.drain(on);
      return node.info();
    },

    close: async () => {
      closed = true;
      clearInterval(timer);
      const left = [...roster.all()];
      await Promise.allSettled(left.map((sandbox) => sandbox.release()));
      for (const { id } of left) {
        roster.remove(id);
      }
      await pools.close();
    },
  };
  return node;
}
