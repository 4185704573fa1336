import { entryOfClaim } from "./claim-entry.ts";
import type { ClaimAttempts, Delivery } from "./claim-hop.ts";
import { attemptClaim, followRedirect } from "./claim-hop.ts";
import { badRequest, checkClaimInput } from "./claim-input.ts";
import { routeClaim } from "./claim-router.ts";
import type { Deliveries } from "./deliveries.ts";
import type { Assignment, ClaimOptions, NodePools, PoolKey } from "./domain.ts";
import { ScaleError } from "./errors.ts";
import type { LateClaims } from "./late-claims.ts";
import type { NodeCalls } from "./node-calls.ts";
import type { InventorySource, Logger, NodeCheckpointClaim, NodeClaim } from "./ports.ts";
import { readBack } from "./read-back.ts";
import type { RoutingTables } from "./routing-table.ts";

/** What {@link SandboxClaims} work with. */
export interface ClaimParts {
  readonly source: InventorySource;
  readonly calls: NodeCalls;
  readonly tables: RoutingTables;
  readonly deliveries: Deliveries;
  readonly late: LateClaims;
  readonly logger: Logger;
  readonly random: () => number;
}

type Shared = Omit<ClaimAttempts, "ask" | "missing">;

/** Claims out of pools and out of snapshots. */
export class SandboxClaims {
  readonly #parts: ClaimParts;

  constructor(parts: ClaimParts) {
    this.#parts = parts;
  }

  async claim(namespace: string, name: string, pool: PoolKey, options: ClaimOptions): Promise<Assignment> {
    const { deliveries, random } = this.#parts;
    const claimRef = `${namespace}/${name}`;
    const shared = this.#shared("claim", claimRef, options);
    checkClaimInput("claim", { namespace, name, ttlSeconds: options.ttlSeconds });
    if (pool.template === "") {
      throw badRequest("claim", "a claim needs a template");
    }
    const claim: NodeClaim = {
      pool,
      claimRef,
      ttlSeconds: options.ttlSeconds,
      metadata: options.metadata && { ...options.metadata },
      onExpire: options.onExpire,
      noEgress: options.noEgress,
    };
    return only(
      await deliveries.deliver("scale.Claim", options.signal, async () => {
        const { promoted = false, promotedOn } = options;
        const delivery = await routeClaim({ ...shared, random, claim, promoted, promotedOn });
        return [{ ...delivery, entry: entryOfClaim(claim, delivery) }];
      }),
    );
  }

  async claimSnapshot(
    namespace: string,
    name: string,
    nodeKey: string,
    snapshotId: string,
    options: ClaimOptions,
  ): Promise<Assignment> {
    const verb = "checkpoint claim";
    const { deliveries, calls } = this.#parts;
    const claimRef = `${namespace}/${name}`;
    const shared = this.#shared(verb, claimRef, options);
    checkClaimInput(verb, { namespace, name, ttlSeconds: options.ttlSeconds });
    if (options.noEgress === true) {
      throw badRequest(verb, "a claim of a snapshot keeps the way out that the snapshot's sandbox had");
    }
    const node = calls.nodeOf({ verb, node: nodeKey, id: snapshotId });
    const claim: NodeCheckpointClaim = {
      claimRef,
      ttlSeconds: options.ttlSeconds,
      metadata: options.metadata && { ...options.metadata },
      onExpire: options.onExpire,
    };
    const attempts: ClaimAttempts = {
      ...shared,
      missing: "not-held",
      ask: (client, hop, call) =>
        client.claimCheckpoint(snapshotId, hop === undefined ? claim : { ...claim, noRedirect: true }, call),
    };
    const func = "scale.ClaimSnapshot";
    return only(
      await deliveries.deliver(func, options.signal, async () => {
        const delivery = await askHolders(attempts, node, snapshotId);
        try {
          return [{ ...delivery, entry: await readBack(shared.clients, verb, delivery, claimRef) }];
        } catch (error) {
          await deliveries.abandon([delivery], func, "its node did not take its name");
          throw error;
        }
      }),
    );
  }

  /** What the attempts of one claim share. */
  #shared(verb: string, claimRef: string, options: ClaimOptions): Shared {
    const { calls, logger, tables, source, late } = this.#parts;
    return {
      clients: calls.clients(verb),
      logger,
      table: tables.current(),
      signal: options.signal,
      viewOf: (node) => source.nodeInventory(node),
      onUncertain: (node, before) => {
        if (options.uniqueName === true) {
          late.watch(node, claimRef, before);
        }
      },
    };
  }
}

/** The node that holds the snapshot, else those that it names. */
async function askHolders(attempts: ClaimAttempts, node: NodePools, snapshotId: string): Promise<Delivery> {
  const attempt = await attemptClaim(attempts, node);
  if (attempt.kind === "delivered") {
    return { node, reply: attempt.reply };
  }
  const where = { verb: "checkpoint claim", node: node.node, id: snapshotId };
  const said = `sandboxd ${where.verb} of "${snapshotId}" on node "${node.node}"`;
  if (attempt.kind === "missing") {
    throw new ScaleError("not_found", `${said}: ${attempt.reason}`, { ...where, status: 404 });
  }
  const delivery = attempt.kind === "redirect" ? await followRedirect(attempts, node, attempt) : undefined;
  if (delivery !== undefined) {
    return delivery;
  }
  const reason = attempt.kind === "redirect" ? "redirected to nodes that delivered nothing" : attempt.reason;
  throw new ScaleError("no_warm_capacity", `${said}: ${reason}`, where);
}

function only(assignments: readonly Assignment[]): Assignment {
  const [assignment] = assignments;
  if (assignment === undefined) {
    throw new TypeError("a claim resolved without a sandbox");
  }
  return assignment;
}
