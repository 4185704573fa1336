import type { Delivery } from "./claim-hop.ts";
import type { InventoryEntry } from "./domain.ts";
import type { NodeClaim } from "./ports.ts";

/** A lease that a node grants when none was asked for, and the longest it grants (node API §5.1), in seconds. */
const DEFAULT_LEASE_SECONDS = 300;
const MAX_LEASE_SECONDS = 86_400;

/** The entry of a sandbox that was claimed under a name. */
export type ClaimedEntry = InventoryEntry & { readonly claimRef: string };

/** The entry that the node will list for a claim, until it does. */
export function entryOfClaim(claim: NodeClaim, { reply }: Delivery): ClaimedEntry {
  return {
    name: claim.claimRef,
    id: reply.id,
    phase: "Running",
    template: claim.pool.template,
    net: claim.pool.net || "none",
    size: claim.pool.size || "small",
    claimRef: claim.claimRef,
    deadline: reply.deadline,
    claimedAt: claimedAt(claim, reply.deadline),
    metadata: claim.metadata,
  };
}

/** When a claim began by the node's clock, which need not agree with ours: the granted end less the granted length. */
function claimedAt(claim: NodeClaim, deadline: Date | undefined): Date {
  if (deadline === undefined) {
    return new Date();
  }
  const seconds = Math.min(claim.ttlSeconds || DEFAULT_LEASE_SECONDS, MAX_LEASE_SECONDS);
  return new Date(deadline.getTime() - seconds * 1000);
}
