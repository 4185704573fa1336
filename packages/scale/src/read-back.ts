import type { ClaimedEntry } from "./claim-entry.ts";
import type { Delivery } from "./claim-hop.ts";
import { ScaleError } from "./errors.ts";
import { verbError } from "./node-failures.ts";
import type { NodeClients } from "./ports.ts";
import { qualifiedName } from "./sandbox-view.ts";

/**
 * The entry of a sandbox that was just made out of another one. Older nodes take no name for such a sandbox: it would
 * lie in the namespace `default`, where others see it.
 * @throws ScaleError `bad_request` for a sandbox that does not bear its name; `node_failed` when it cannot be read.
 */
export async function readBack(
  clients: NodeClients,
  verb: string,
  { node, reply }: Delivery,
  claimRef: string,
): Promise<ClaimedEntry> {
  const where = { verb, node: node.node, id: reply.id };
  const row = await clients
    .forAddress(node.address)
    .sandbox(reply.id)
    .catch((error: unknown) => {
      throw verbError(clients, error, { ...where, plain: true });
    });
  if (row?.entry.id !== reply.id) {
    throw new ScaleError(
      "node_failed",
      `sandboxd ${verb} on node "${node.node}": the new sandbox "${reply.id}" cannot be read`,
      where,
    );
  }
  if (qualifiedName(row.entry.name) !== claimRef) {
    throw new ScaleError(
      "bad_request",
      `sandboxd ${verb} on node "${node.node}": the node is too old, it does not keep the name of the new sandbox`,
      where,
    );
  }
  return { ...row.entry, name: claimRef, claimRef };
}
