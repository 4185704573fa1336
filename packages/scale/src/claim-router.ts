import type { ClaimAttempts, Delivery } from "./claim-hop.ts";
import { attemptClaim, followRedirect } from "./claim-hop.ts";
import type { PoolKey } from "./domain.ts";
import { ScaleError } from "./errors.ts";
import type { NodeClaim } from "./ports.ts";
import type { Candidate } from "./routing-table.ts";
import { pickPowerOfTwo } from "./routing-table.ts";

/** One claim on its way. */
export interface ClaimRoute extends Omit<ClaimAttempts, "ask" | "missing"> {
  readonly random: () => number;
  readonly claim: NodeClaim;
  readonly promoted: boolean;
  /** Holders of the promoted template, where the caller knows better than inventory. */
  readonly promotedOn: readonly string[] | undefined;
}

/**
 * Claims from a fleet whose inventory is seconds old: samples a candidate, follows at most one redirect hop, and drops
 * nodes that delivered nothing until one delivers or none is left. Whatever may have been delivered ends the claim
 * instead of being asked for twice.
 */
export async function routeClaim(route: ClaimRoute): Promise<Delivery> {
  const { table, logger } = route;
  const pool = route.claim.pool;
  let candidates = table.warm(pool);
  let promotedPath = false;
  if (candidates.length === 0 && route.promoted) {
    candidates = route.promotedOn === undefined ? table.templateHolders(pool) : table.named(route.promotedOn);
    promotedPath = true;
  }
  const claim = promotedPath ? { ...route.claim, requirePromoted: true } : route.claim;
  const attempts: ClaimAttempts = {
    ...route,
    missing: promotedPath ? "template-gone" : "refused",
    ask: (client, hop, options) =>
      client.claim(
        hop === undefined
          ? claim
          : {
              ...claim,
              noRedirect: true,
              requirePromoted: claim.requirePromoted === true || hop.requirePromoted ? true : undefined,
            },
        options,
      ),
  };

  for (;;) {
    const picked = candidates.length === 0 ? undefined : pickPowerOfTwo(candidates, route.random);
    if (picked === undefined) {
      throw noWarmCapacity(pool);
    }
    const node = picked.node;
    const attempt = await attemptClaim(attempts, node);
    if (attempt.kind === "delivered") {
      return { node, reply: attempt.reply };
    }
    let reason: string;
    let targets: readonly string[] = [];
    if (attempt.kind === "redirect") {
      const delivery = await followRedirect(attempts, node, attempt);
      if (delivery !== undefined) {
        return delivery;
      }
      targets = attempt.targets;
      reason = "redirected to nodes that delivered nothing";
    } else {
      reason = attempt.reason;
    }
    candidates = withoutNodes(candidates, node.node, targets);
    logger.debug(
      { func: "scale.Claim", node: node.node, err: reason, remaining: candidates.length },
      `node delivered nothing for the claim; trying another node node=${node.node} err=${reason} remaining=${candidates.length}`,
    );
  }
}

function withoutNodes(
  candidates: readonly Candidate[],
  node: string,
  addresses: readonly string[],
): readonly Candidate[] {
  return candidates.filter((candidate) => candidate.node.node !== node && !addresses.includes(candidate.node.address));
}

function noWarmCapacity(pool: PoolKey): ScaleError {
  return new ScaleError(
    "no_warm_capacity",
    `no node has warm capacity for template "${pool.template}" net "${pool.net || "none"}" size "${pool.size || "small"}"`,
  );
}
