import { abortedError, throwIfAborted } from "./detached-work.ts";
import type { NodeInventory, NodePools } from "./domain.ts";
import { isScaleError, ScaleError } from "./errors.ts";
import { describeFailure } from "./node-failures.ts";
import type { CallOptions, Logger, NodeClaimReply, NodeClient, NodeClients, NodeDelivery } from "./ports.ts";
import type { RoutingTable } from "./routing-table.ts";

/** A delivered claim and the node that delivered it, which need not be the one first asked. */
export interface Delivery {
  readonly node: NodePools;
  readonly reply: NodeDelivery;
}

/** What every attempt of one claim shares. */
export interface ClaimAttempts {
  readonly clients: NodeClients;
  readonly logger: Logger;
  /** Serves the whole claim: candidates and redirect targets come from the same snapshot. */
  readonly table: RoutingTable;
  readonly signal: AbortSignal | undefined;
  /** A node's current view. */
  readonly viewOf: (node: string) => NodeInventory | undefined;
  /** Called when a node may have delivered without saying so, with its view from before the request. */
  readonly onUncertain: (node: string, before: NodeInventory | undefined) => void;
  /** Asks one node. On a hop it must not redirect again. */
  readonly ask: (client: NodeClient, hop: Hop | undefined, options: CallOptions) => Promise<NodeClaimReply>;
  /**
   * What a node's 404 means: the claim can never succeed (`refused`), the node has lost a template that inventory still
   * shows (`template-gone`), or it does not hold the snapshot (`not-held`).
   */
  readonly missing: "refused" | "template-gone" | "not-held";
}

/** What the node that redirected asks for. */
export interface Hop {
  readonly requirePromoted: boolean;
}

/** What came of asking one node. */
export type Attempt =
  | { readonly kind: "delivered"; readonly reply: NodeDelivery }
  | { readonly kind: "redirect"; readonly targets: readonly string[]; readonly requirePromoted: boolean }
  | { readonly kind: "undelivered"; readonly reason: string }
  | { readonly kind: "missing"; readonly reason: string };

/** Nodes name two or three. What one of them makes up must not have the fleet asked for minutes. */
const MAX_TARGETS = 8;

/**
 * Asks one node for a sandbox. Whatever may have been delivered, and every refusal, is thrown. An abort stops it before
 * the request, never in the middle of one.
 */
export async function attemptClaim(claim: ClaimAttempts, node: NodePools, hop?: Hop): Promise<Attempt> {
  throwIfAborted(claim.signal);
  const before = claim.viewOf(node.node);
  try {
    const reply = await claim.ask(claim.clients.forAddress(node.address), hop, { signal: claim.signal });
    if (reply.kind === "empty") {
      return { kind: "undelivered", reason: "neither a sandbox nor a redirect" };
    }
    return reply.kind === "delivered"
      ? { kind: "delivered", reply }
      : { ...reply, targets: reply.targets.slice(0, MAX_TARGETS) };
  } catch (error) {
    try {
      return failedAttempt(claim, node, error);
    } catch (failed) {
      if (isScaleError(failed, "claim_failed")) {
        claim.onUncertain(node.node, before);
      }
      throw failed;
    }
  }
}

/** Asks the targets of one redirect in order. `undefined` when none delivered. A further redirect is not followed. */
export async function followRedirect(
  claim: ClaimAttempts,
  from: NodePools,
  redirect: Extract<Attempt, { kind: "redirect" }>,
): Promise<Delivery | undefined> {
  const { logger } = claim;
  const func = "scale.claimRedirected";
  const hop: Hop = { requirePromoted: redirect.requirePromoted };
  for (const target of new Set(redirect.targets)) {
    const node = claim.table.nodeAt(target);
    if (node === undefined) {
      logger.debug(
        { func, from: from.node, target },
        `redirect target is no known node; skipping from=${from.node} target=${target}`,
      );
      continue;
    }
    const attempt = await attemptClaim(claim, node, hop);
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
    if (attempt.kind === "missing" && claim.missing === "template-gone") {
      return undefined;
    }
  }
  return undefined;
}

/** Sorts a failed attempt: what cannot have delivered is returned, everything else ends the claim. */
function failedAttempt(claim: ClaimAttempts, node: NodePools, error: unknown): Attempt {
  const failure = claim.clients.failure(error);
  const reason = describeFailure(failure);
  const status = failure.status ?? 0;
  if (failure.kind === "unsent" || (failure.kind === "status" && (status === 429 || status >= 500))) {
    return { kind: "undelivered", reason };
  }
  if (failure.kind === "status" && status === 404 && claim.missing !== "refused") {
    return { kind: "missing", reason };
  }
  if (failure.kind === "aborted" && claim.signal?.aborted === true) {
    throw abortedError(claim.signal);
  }
  throw new ScaleError(
    failure.kind === "status" ? "claim_refused" : "claim_failed",
    `sandboxd claim on node "${node.node}": ${failure.nodeMessage || reason}`,
    { node: node.node, verb: "claim", status: failure.status, nodeMessage: failure.nodeMessage, cause: error },
  );
}
