import type {
  CheckpointClaimRequest,
  ClaimReply,
  ClaimRequest,
  FullPoolKey,
  RedirectReply,
} from "@org/sandboxd-client/wire";
import type { KeptCapture } from "../host/capture-store.ts";
import type { Guest } from "../host/guest.ts";
import { ownerOf, type Caller } from "./access.ts";
import type { Checkpoints } from "./checkpoints.ts";
import { checkMetadata, grantLease, readOnExpire, refuseUnsupported } from "./claim-rules.ts";
import type { Deliver, Grant } from "./delivery.ts";
import type { ClaimTier, NodeMetrics } from "./metrics.ts";
import type { Peers } from "./peers.ts";
import { readPoolKey } from "./pool-key.ts";
import type { Pools } from "./pools.ts";
import { Refusal } from "./refusal.ts";
import type { Roster } from "./roster.ts";
import type { Template, Templates } from "./templates.ts";

/** What claims are served from. */
export interface ClaimOptions {
  readonly pools: Pools;
  readonly peers: Peers;
  readonly roster: Roster;
  readonly templates: Templates;
  readonly checkpoints: Checkpoints;
  readonly deliver: Deliver;
  readonly metrics: NodeMetrics;
  /** There is a way out for the egress lane. */
  readonly egressLane: boolean;
  /** Refuse keys that neither a pool nor a promoted template serves. */
  readonly refuseUnpooled: boolean;
  /** The node is going away: what has just started is not handed out. */
  readonly closed: () => boolean;
}

/** Where new sandboxes come from. */
export interface Claims {
  /** An abort says that nobody takes the reply any more: a guest that was started for it is not handed out. */
  claim(request: ClaimRequest, caller: Caller, signal: AbortSignal): Promise<ClaimReply | RedirectReply>;
  /** A sandbox out of a checkpoint, with an abort as for a claim. */
  claimCheckpoint(
    id: string,
    request: CheckpointClaimRequest,
    caller: Caller,
    signal: AbortSignal,
  ): Promise<ClaimReply | RedirectReply>;
}

/** @throws Refusal 409 where there is no such lane */
export function checkLane(key: FullPoolKey, egressLane: boolean): void {
  if (key.net === "egress" && !egressLane) {
    throw new Refusal(409, "node has no egress attachment (bridge or network)");
  }
}

/** Makes the claims of a node. */
export function createClaims(options: ClaimOptions): Claims {
  const { pools, peers, roster, templates, checkpoints, deliver, metrics } = options;

  const redirectToWarm = (key: FullPoolKey): RedirectReply | undefined => {
    const targets = peers.warmFor(key);
    return targets.length === 0 ? undefined : { redirect: targets };
  };
  const redirectToTemplate = (key: FullPoolKey, caller: Caller): RedirectReply | undefined => {
    const targets = peers.holdersOf(key, caller);
    return targets.length === 0 ? undefined : { redirect: targets, require_promoted: true };
  };

  /** Starts a guest, counted against the quotas while it starts. @throws Refusal 429, 500 */
  const provision = async (
    key: FullPoolKey,
    tenant: string | undefined,
    signal: AbortSignal,
    capture?: KeptCapture,
  ): Promise<{ readonly guest: Guest; readonly tier: ClaimTier }> => {
    const held = roster.hold(tenant);
    try {
      const start = () => pools.provision(key, signal, capture);
      const started = await (capture === undefined ? start() : capture.use(start));
      if (options.closed() || signal.aborted) {
        await started.guest.destroy();
        throw new Refusal(500, "provisioning failed");
      }
      return started;
    } catch (cause) {
      throw new Refusal(500, "provisioning failed", signal.aborted || cause instanceof Refusal ? {} : { cause });
    } finally {
      held.free();
    }
  };

  /** The promoted template of a claim, checked: a claim that wants nothing else gets nothing else. */
  const templateFor = (key: FullPoolKey, caller: Caller, promotedOnly: boolean): Template | undefined => {
    const template = templates.find(key, caller);
    if (template === undefined && promotedOnly) {
      throw new Refusal(404, "unknown template");
    }
    if (template === undefined && options.refuseUnpooled && !pools.has(key)) {
      throw new Refusal(500, "provisioning failed");
    }
    return template;
  };

  return {
    // The order of node API §5.4.
    claim: async (request, caller, signal) => {
      const began = performance.now();
      const onExpire = readOnExpire(request.on_expire) ?? "destroy";
      const metadata = request.metadata ?? {};
      checkMetadata(metadata);
      refuseUnsupported(request);
      const key = readPoolKey(request);
      checkLane(key, options.egressLane);
      if (onExpire === "archive" && key.net === "egress") {
        throw new Refusal(409, "egress-lane sandboxes cannot be archived");
      }
      const tenant = ownerOf(caller);
      const promotedOnly = request.require_promoted === true;
      const mayRedirect = peers.meshed && request.no_redirect !== true;
      const give = (guest: Guest, tier: ClaimTier, templateDigest?: string): ClaimReply => {
        const grant: Grant = {
          tenant,
          claimRef: request.claim_ref ?? "",
          metadata,
          leaseSeconds: grantLease(request.ttl_seconds),
          onExpire,
          egress: request.egress,
          templateDigest,
        };
        const reply = deliver(guest, key, grant);
        metrics.claimed(tier, (performance.now() - began) / 1000);
        return reply;
      };
      try {
        if (!promotedOnly) {
          roster.admit(tenant);
          const warm = pools.take(key);
          if (warm !== undefined) {
            return give(warm, "warm");
          }
          const elsewhere = mayRedirect ? redirectToWarm(key) : undefined;
          if (elsewhere !== undefined) {
            return elsewhere;
          }
        }
        if (mayRedirect && templates.find(key, caller) === undefined && (promotedOnly || !pools.golden(key))) {
          const elsewhere = redirectToTemplate(key, caller);
          if (elsewhere !== undefined) {
            return elsewhere;
          }
        }
        const template = templateFor(key, caller, promotedOnly);
        const { guest, tier } = await provision(key, tenant, signal, template?.capture);
        return give(guest, tier, template?.info.content_digest);
      } catch (error) {
        const full = error instanceof Refusal && error.status === 429;
        const elsewhere = full && mayRedirect && !promotedOnly ? redirectToWarm(key) : undefined;
        if (elsewhere !== undefined) {
          return elsewhere;
        }
        throw error;
      }
    },

    // The order of node API §8.3. A claim_ref goes beyond it: without one a branch belongs to no namespace.
    claimCheckpoint: async (id, request, caller, signal) => {
      const began = performance.now();
      const onExpire = readOnExpire(request.on_expire) ?? "destroy";
      const metadata = request.metadata ?? {};
      checkMetadata(metadata);
      refuseUnsupported(request);
      const checkpoint = checkpoints.find(id);
      if (checkpoint === undefined) {
        const holders = peers.meshed && request.no_redirect !== true ? await peers.findCheckpoint(id) : [];
        if (holders.length > 0) {
          return { redirect: holders };
        }
        throw new Refusal(404, "unknown checkpoint");
      }
      const { key } = checkpoint.record;
      const tenant = ownerOf(caller);
      const { guest } = await provision(key, tenant, signal, checkpoint.capture);
      const reply = deliver(guest, key, {
        tenant,
        claimRef: request.claim_ref ?? "",
        metadata,
        leaseSeconds: grantLease(request.ttl_seconds),
        onExpire,
        fromCheckpoint: id,
      });
      metrics.claimed("clone", (performance.now() - began) / 1000);
      return reply;
    },
  };
}
