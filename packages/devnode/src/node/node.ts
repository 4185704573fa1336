import { randomBytes } from "node:crypto";
import type { Duplex } from "node:stream";
import type {
  ClaimReply,
  ClaimRequest,
  FullPoolKey,
  InfoReply,
  PoolsRequest,
  RedirectReply,
  RenewRequest,
  SandboxRow,
} from "@org/sandboxd-client/wire";
import type { Guest } from "../host/guest.ts";
import type { DevNodeLogger } from "../logger.ts";
import { digest, type Caller, type Tenant } from "./access.ts";
import { checkMetadata, grantLease, readOnExpire, refuseUnsupported } from "./claim-rules.ts";
import { createNodeMetrics, type ClaimTier, type NodeMetrics } from "./metrics.ts";
import { keyText, readPoolKey } from "./pool-key.ts";
import type { Peers } from "./peers.ts";
import type { PoolConfig, Pools } from "./pools.ts";
import { Refusal } from "./refusal.ts";
import { Sandbox } from "./sandbox.ts";

/** Options of {@link createNode}. */
export interface NodeOptions {
  readonly pools: Pools;
  readonly peers: Peers;
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
export interface Node {
  readonly metrics: NodeMetrics;
  find(id: string): Sandbox | undefined;
  /** An abort says that nobody takes the reply any more: a guest that was started for it is not handed out. */
  claim(request: ClaimRequest, caller: Caller, signal: AbortSignal): Promise<ClaimReply | RedirectReply>;
  list(filter: IndexFilter): readonly SandboxRow[];
  release(sandbox: Sandbox): Promise<void>;
  hibernate(sandbox: Sandbox): Promise<void>;
  wake(sandbox: Sandbox): Promise<void>;
  renew(sandbox: Sandbox, request: RenewRequest): number;
  /** Opens a relay; a paused sandbox is woken by an active one. */
  dial(sandbox: Sandbox, port: number, active: boolean, signal: AbortSignal): Promise<Duplex>;
  info(): InfoReply;
  configurePools(request: PoolsRequest): Promise<InfoReply>;
  drain(on: boolean): Promise<InfoReply>;
  /** Looks at leases now, instead of at the next tick. */
  reap(): Promise<void>;
  close(): Promise<void>;
}

/** Makes a node without pools. */
export function createNode(options: NodeOptions): Node {
  const { pools, peers, logger, now } = options;
  const sandboxes = new Map<string, Sandbox>();
  /** Claims that were admitted and wait for their guest. */
  let provisioning = 0;
  const provisioningOf = new Map<string, number>();
  let draining = false;
  let closed = false;
  const reaping = new Set<string>();

  const count = (state: Sandbox["state"]): number => {
    let total = 0;
    for (const sandbox of sandboxes.values()) {
      total += sandbox.state === state ? 1 : 0;
    }
    return total;
  };
  const claimsOf = (tenant: string): number => {
    let total = provisioningOf.get(tenant) ?? 0;
    for (const sandbox of sandboxes.values()) {
      total += sandbox.facts.tenant === tenant ? 1 : 0;
    }
    return total;
  };
  const metrics = createNodeMetrics({
    claimed: () => sandboxes.size,
    hibernated: () => count("hibernated"),
    archived: () => count("archived"),
    failed: () => count("failed"),
    draining: () => draining,
    pools: () => pools.snapshot(),
    ...(options.tenants.length === 0
      ? {}
      : { tenantClaims: () => new Map(options.tenants.map(({ name }) => [name, claimsOf(name)])) }),
  });

  /** @throws Refusal 429 */
  const admit = (caller: Caller): void => {
    if (draining) {
      throw new Refusal(429, "node claim quota reached: node draining");
    }
    const live = sandboxes.size + provisioning;
    if (options.maxClaims > 0 && live >= options.maxClaims) {
      throw new Refusal(429, `node claim quota reached: ${live} live claims, cap ${options.maxClaims}`);
    }
    if (caller.kind === "tenant") {
      const { name, maxClaims = 0 } = caller.tenant;
      const own = claimsOf(name);
      if (maxClaims > 0 && own >= maxClaims) {
        throw new Refusal(429, `node claim quota reached: tenant ${name} at ${own} live claims, cap ${maxClaims}`);
      }
    }
  };
  const checkLane = (key: FullPoolKey): void => {
    if (key.net === "egress" && !options.egressLane) {
      throw new Refusal(409, "node has no egress attachment (bridge or network)");
    }
  };

  /** Starts a guest for a claim, counted against the quotas while it starts. */
  const provision = async (
    key: FullPoolKey,
    caller: Caller,
    signal: AbortSignal,
  ): Promise<{ guest: Guest; tier: ClaimTier }> => {
    if (options.refuseUnpooled && !pools.has(key)) {
      throw new Refusal(500, "provisioning failed");
    }
    const tenant = caller.kind === "tenant" ? caller.tenant.name : undefined;
    provisioning += 1;
    if (tenant !== undefined) {
      provisioningOf.set(tenant, (provisioningOf.get(tenant) ?? 0) + 1);
    }
    try {
      return await pools.provision(key, signal);
    } catch (cause) {
      throw new Refusal(500, "provisioning failed", signal.aborted ? {} : { cause });
    } finally {
      provisioning -= 1;
      if (tenant !== undefined) {
        provisioningOf.set(tenant, (provisioningOf.get(tenant) ?? 1) - 1);
      }
    }
  };

  const deliver = (guest: Guest, key: FullPoolKey, request: ClaimRequest, caller: Caller): ClaimReply => {
    const token = randomBytes(16).toString("hex");
    const sandbox = new Sandbox(
      {
        guest,
        key,
        token,
        tokenDigest: digest(token),
        tenant: caller.kind === "tenant" ? caller.tenant.name : undefined,
        claimRef: request.claim_ref ?? "",
        metadata: request.metadata ?? {},
      },
      grantLease(request.ttl_seconds),
      readOnExpire(request.on_expire) ?? "destroy",
      now,
    );
    sandboxes.set(sandbox.id, sandbox);
    if (request.egress === false) {
      guest.setEgress(false);
    }
    const address = options.address();
    return {
      id: sandbox.id,
      token,
      deadline: new Date(sandbox.deadline ?? now()).toISOString(),
      ...(address === undefined ? {} : { owner_addr: address }),
      net_route: key.net === "egress" && request.egress !== false ? options.egressRoute : "none",
    };
  };

  const redirect = (key: FullPoolKey): RedirectReply | undefined => {
    const targets = peers.warmFor(key);
    return targets.length === 0 ? undefined : { redirect: targets };
  };

  const node: Node = {
    metrics,
    find: (id) => sandboxes.get(id),

    // The order of node API §5.4. This node never holds a promoted template, so such claims always miss.
    claim: async (request, caller, signal) => {
      const began = performance.now();
      const onExpire = readOnExpire(request.on_expire);
      checkMetadata(request.metadata ?? {});
      refuseUnsupported(request);
      const key = readPoolKey(request);
      checkLane(key);
      if (onExpire === "archive" && key.net === "egress") {
        throw new Refusal(409, "egress-lane sandboxes cannot be archived");
      }
      if (request.require_promoted === true) {
        throw new Refusal(404, "unknown template");
      }
      const mayRedirect = peers.meshed && request.no_redirect !== true;
      try {
        admit(caller);
        const warm = pools.take(key);
        if (warm !== undefined) {
          const reply = deliver(warm, key, request, caller);
          metrics.claimed("warm", (performance.now() - began) / 1000);
          return reply;
        }
        const elsewhere = mayRedirect ? redirect(key) : undefined;
        if (elsewhere !== undefined) {
          return elsewhere;
        }
        const { guest, tier } = await provision(key, caller, signal);
        if (closed || signal.aborted) {
          await guest.destroy();
          throw new Refusal(500, "provisioning failed");
        }
        const reply = deliver(guest, key, request, caller);
        metrics.claimed(tier, (performance.now() - began) / 1000);
        return reply;
      } catch (error) {
        const elsewhere = error instanceof Refusal && error.status === 429 && mayRedirect ? redirect(key) : undefined;
        if (elsewhere !== undefined) {
          return elsewhere;
        }
        throw error;
      }
    },

    list: (filter) => {
      const rows: SandboxRow[] = [];
      for (const sandbox of sandboxes.values()) {
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
      if (!sandboxes.delete(sandbox.id)) {
        throw new Refusal(404, "unknown sandbox");
      }
      metrics.released();
      await sandbox.release();
    },

    hibernate: async (sandbox) => {
      if (await sandbox.hibernate()) {
        metrics.hibernated();
      }
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

    info: () => {
      const address = options.address();
      const failed = count("failed");
      const { parked } = pools;
      return {
        pools: pools.snapshot(),
        templates: [],
        claimed: sandboxes.size,
        hibernated: count("hibernated"),
        archived: count("archived"),
        ...(failed > 0 ? { failed } : {}),
        ...(draining ? { draining } : {}),
        ...(address === undefined ? {} : { advertise_addr: address }),
        peers: peers.addresses,
        ...(parked === undefined ? {} : { at_capacity: true, at_capacity_reason: parked }),
      };
    },

    configurePools: async (request) => {
      await pools.configure(readPools(request, checkLane));
      return node.info();
    },

    drain: async (on) => {
      draining = on;
      await pools.drain(on);
      return node.info();
    },

    reap: async () => {
      await Promise.all([...sandboxes.values()].map((sandbox) => look(sandbox)));
    },

    close: async () => {
      closed = true;
      clearInterval(timer);
      await Promise.allSettled([...sandboxes.values()].map((sandbox) => sandbox.release()));
      sandboxes.clear();
      await pools.close();
    },
  };

  function noteWake(before: Sandbox["state"], began: number): void {
    if (before === "running") {
      return;
    }
    metrics.woke((performance.now() - began) / 1000);
    if (before === "archived") {
      metrics.unarchived();
    }
  }

  /** One sandbox's turn of the reaper. What has to happen is decided again once the transitions before it are done. */
  async function look(sandbox: Sandbox): Promise<void> {
    if (reaping.has(sandbox.id) || !isDue(sandbox)) {
      return;
    }
    reaping.add(sandbox.id);
    try {
      const expired = await sandbox.transition(async () => {
        const policy = pools.policy(sandbox.facts.key);
        if (!isDue(sandbox)) {
          return undefined;
        }
        if (isPast(sandbox.deadline)) {
          if (sandbox.state === "archived" || sandbox.state === "failed") {
            return sandbox.state;
          }
          const poolArchives = sandbox.state === "hibernated" && (policy?.archiveAfterSeconds ?? 0) > 0;
          if (sandbox.onExpire !== "archive" && !poolArchives) {
            return sandbox.state;
          }
          await sandbox.archive(policy?.archiveDeleteAfterSeconds ?? 0);
          metrics.archived();
          return undefined;
        }
        if (sandbox.state === "hibernated") {
          await sandbox.archive(policy?.archiveDeleteAfterSeconds ?? 0);
          metrics.archived();
        }
        return undefined;
      });
      if (expired !== undefined && sandboxes.delete(sandbox.id)) {
        if (expired === "archived") {
          metrics.archiveDeleted();
        } else {
          metrics.reaped();
        }
        await sandbox.release();
      } else if (sandbox.state === "running" && isIdle(sandbox)) {
        await node.hibernate(sandbox);
      }
    } catch (error) {
      logger.error({ sandbox: sandbox.id, err: error }, "lease could not be ended, trying again");
    } finally {
      reaping.delete(sandbox.id);
    }
  }

  function isPast(time: number | undefined): boolean {
    return time !== undefined && time <= now();
  }

  function isIdle(sandbox: Sandbox): boolean {
    const idle = pools.policy(sandbox.facts.key)?.idleHibernateSeconds ?? 0;
    return (
      idle > 0 &&
      sandbox.facts.key.net === "none" &&
      sandbox.state === "running" &&
      sandbox.activeRelays === 0 &&
      now() - sandbox.lastActivity >= idle * 1000
    );
  }

  function isDue(sandbox: Sandbox): boolean {
    if (isPast(sandbox.deadline)) {
      return true;
    }
    const archiveAfter = pools.policy(sandbox.facts.key)?.archiveAfterSeconds ?? 0;
    if (sandbox.state === "hibernated") {
      return archiveAfter > 0 && now() - sandbox.lastActivity >= archiveAfter * 1000;
    }
    return isIdle(sandbox);
  }

  const timer = setInterval(() => {
    void node.reap();
  }, options.reapIntervalMs);
  timer.unref();
  return node;
}

/** Checks the bounds of node API §9.3. @throws Refusal 400, 409 */
function readPools(request: PoolsRequest, checkLane: (key: FullPoolKey) => void): PoolConfig[] {
  const seen = new Set<string>();
  return request.pools.map((spec) => {
    const key = readPoolKey(spec);
    const refuse = (what: string): never => {
      throw new Refusal(400, `invalid fork count: pool ${keyText(key)}: ${what}`);
    };
    const { warm, warm_max: warmMax = 0 } = spec;
    const idle = spec.idle_hibernate_seconds ?? 0;
    const archiveAfter = spec.archive_after_seconds ?? 0;
    const archiveDelete = spec.archive_delete_after_seconds ?? 0;
    if (seen.has(keyText(key))) {
      refuse("the key is there twice");
    }
    seen.add(keyText(key));
    if (warm < 0) {
      refuse("warm is negative");
    }
    if (warmMax < 0 || (warmMax > 0 && warmMax < warm)) {
      refuse("warm_max is below warm");
    }
    if (idle < 0) {
      refuse("idle_hibernate_seconds is negative");
    }
    if (idle > 0 && key.net === "egress") {
      refuse("egress-lane sandboxes do not hibernate");
    }
    if (archiveAfter < 0 || archiveDelete < 0) {
      refuse("archive windows are negative");
    }
    if (archiveAfter > 0 && archiveAfter <= idle) {
      refuse("archive_after_seconds must exceed idle_hibernate_seconds");
    }
    if (archiveAfter > 0 && idle === 0) {
      refuse("archive_after_seconds needs idle_hibernate_seconds");
    }
    if (archiveDelete > 0 && archiveAfter === 0) {
      refuse("archive_delete_after_seconds needs archive_after_seconds");
    }
    checkLane(key);
    return {
      key,
      warm,
      warmMax,
      idleHibernateSeconds: idle,
      archiveAfterSeconds: archiveAfter,
      archiveDeleteAfterSeconds: archiveDelete,
    };
  });
}
