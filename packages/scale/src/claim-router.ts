import type { NodeInventory, NodePools, PoolKey } from "./domain.ts";
import { abortedError, throwIfAborted } from "./detached-work.ts";
import { isScaleError, ScaleError } from "./errors.ts";
import { describeFailure } from "./node-failures.ts";
import type { Logger, NodeClaim, NodeClaimReply, NodeClients } from "./ports.ts";
import type { Candidate, RoutingTable } from "./routing-table.ts";
import { pickPowerOfTwo } from "./routing-table.ts";

/** What a node handed over. */
export type DeliveredReply = Extract<NodeClaimReply, { kind: "delivered" }>;

/** A delivered claim and the node that delivered it, which need not be the one first asked. */
export interface Delivery {
  readonly node: NodePools;
  readonly reply: DeliveredReply;
}

/** One claim on its way. */
export interface ClaimRoute {
  readonly clients: NodeClients;
  readonly logger: Logger;
  readonly random: () => number;
  /** Serves the whole claim: candidates and redirect targets come from the same snapshot. */
  readonly table: RoutingTable;
  readonly claim: NodeClaim;
  readonly promoted: boolean;
  readonly signal: AbortSignal | undefined;
  /** A node's current view. */
  readonly viewOf: (node: string) => NodeInventory | undefined;
  /** Called when a node may have delivered without saying so, with its view from before the request. */
  readonly onUncertain: (node: string, before: NodeInventory | undefined) => void;
}

/** Nodes name two. What one of them makes up must not have the fleet asked for minutes. */
const MAX_TARGETS = 8;

type Attempt =
  | { readonly kind: "delivered"; readonly reply: DeliveredReply }
  | { readonly kind: "redirect"; readonly targets: readonly string[]; readonly requirePromoted: boolean }
  | { readonly kind: "undelivered"; readonly reason: string }
  | { readonly kind: "template-gone"; readonly reason: string };

/**
 * Claims from a fleet whose inventory is seconds old: samples a candidate, follows at most one redirect hop, and drops
 * nodes that delivered nothing until one delivers or none is left. Whatever may have been delivered ends the claim
 * instead of being asked for twice. An abort stops it before the next request, never in the middle of one.
 */
export async function routeClaim(route: ClaimRoute): Promise<Delivery> {
  const { table, logger } = route;
  const pool = route.claim.pool;
  let candidates = table.warm(pool);
  let promotedPath = false;
  if (candidates.length === 0 && route.promoted) {
    candidates = table.templateHolders(pool);
    promotedPath = true;
  }
  const claim = promotedPath ? { ...route.claim, requirePromoted: true } : route.claim;

  for (;;) {
    const picked = candidates.length === 0 ? undefined : pickPowerOfTwo(candidates, route.random);
    if (picked === undefined) {
      throw noWarmCapacity(pool);
    }
    const node = picked.node;
    const attempt = await attemptClaim(route, node, claim, promotedPath);
    if (attempt.kind === "delivered") {
      return { node, reply: attempt.reply };
    }
    let reason: string;
    let targets: readonly string[] = [];
    if (attempt.kind === "redirect") {
      const delivery = await followRedirect(route, node, claim, attempt, promotedPath);
      if (delivery !== undefined) {
        return delivery;
      }
      targets = attempt.targets.slice(0, MAX_TARGETS);
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

/** Asks the targets of one redirect in order. `undefined` when none delivered. A further redirect is not followed. */
async function followRedirect(
  route: ClaimRoute,
  from: NodePools,
  claim: NodeClaim,
  redirect: Extract<Attempt, { kind: "redirect" }>,
  promotedPath: boolean,
): Promise<Delivery | undefined> {
  const { logger } = route;
  const func = "scale.claimRedirected";
  const hop: NodeClaim = {
    ...claim,
    noRedirect: true,
    requirePromoted: claim.requirePromoted === true || redirect.requirePromoted ? true : undefined,
  };
  for (const target of new Set(redirect.targets.slice(0, MAX_TARGETS))) {
    const node = route.table.nodeAt(target);
    if (node === undefined) {
      logger.debug(
        { func, from: from.node, target },
        `redirect target is no known node; skipping from=${from.node} target=${target}`,
      );
      continue;
    }
    const attempt = await attemptClaim(route, node, hop, promotedPath);
    if (attempt.kind === "delivered") {
      const id = attempt.reply.id;
      logger.debug(
        { func, from: from.node, node: node.node, id },
        `claim followed a redirect from=${from.node} node=${node.node} id=${id}`,
      );
      return { node, reply: attempt.reply };
    }
    const err = attempt.kind === "redirect" ? "redirected again" : attempt.reason;
    logger.debug(
      { func, from: from.node, node: node.node, err },
      `redirect target delivered nothing; skipping from=${from.node} node=${node.node} err=${err}`,
    );
    if (attempt.kind === "template-gone") {
      return undefined;
    }
  }
  return undefined;
}

async function attemptClaim(
  route: ClaimRoute,
  node: NodePools,
  claim: NodeClaim,
  promotedPath: boolean,
): Promise<Attempt> {
  throwIfAborted(route.signal);
  const before = route.viewOf(node.node);
  try {
    const reply = await route.clients.forAddress(node.address).claim(claim, { signal: route.signal });
    if (reply.kind === "empty") {
      return { kind: "undelivered", reason: "neither a sandbox nor a redirect" };
    }
    return reply.kind === "delivered" ? { kind: "delivered", reply } : reply;
  } catch (error) {
    try {
      return failedAttempt(route, node, error, promotedPath);
    } catch (failed) {
      if (isScaleError(failed, "claim_failed")) {
        route.onUncertain(node.node, before);
      }
      throw failed;
    }
  }
}

/** Sorts a failed attempt: what cannot have delivered moves on, everything else ends the claim. */
function failedAttempt(route: ClaimRoute, node: NodePools, error: unknown, promotedPath: boolean): Attempt {
  const failure = route.clients.failure(error);
  const reason = describeFailure(failure);
  const status = failure.status ?? 0;
  if (failure.kind === "unsent" || (failure.kind === "status" && (status === 429 || status >= 500))) {
    return { kind: "undelivered", reason };
  }
  if (failure.kind === "status" && status === 404 && promotedPath) {
    return { kind: "template-gone", reason };
  }
  if (failure.kind === "aborted" && route.signal?.aborted === true) {
    throw abortedError(route.signal);
  }
  throw new ScaleError(
    failure.kind === "status" ? "claim_refused" : "claim_failed",
    `sandboxd claim on node "${node.node}": ${failure.nodeMessage || reason}`,
    { node: node.node, verb: "claim", status: failure.status, nodeMessage: failure.nodeMessage, cause: error },
  );
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
