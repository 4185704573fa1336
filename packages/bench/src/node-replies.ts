import { POOL, rowsOf } from "./fleet.ts";
import type { FleetSize, Phase, Row } from "./fleet.ts";
import { createRandom, shuffled } from "./random.ts";

/** How the rows of an index follow each other from one poll to the next: nodes promise no order. */
export type RowOrder = "kept" | "shuffled";

/** A row of `GET /v1/sandboxes` as nodes write it. */
function rowText(row: Row): string {
  return (
    `{"id":"${row.id}","key":{"template":"${POOL.template}","net":"${POOL.net ?? ""}","size":"${POOL.size ?? ""}"},` +
    `"deadline":"${row.deadline.toISOString()}","claimed_at":"${row.claimedAt.toISOString()}","hibernated":false,` +
    `"claim_ref":"${row.claimRef}","cpu_count":1,"mem_total_bytes":536870912}`
  );
}

/** Body of one node's `GET /v1/sandboxes`. */
export function indexBody(node: number, { perNode }: FleetSize, phase: Phase, order: RowOrder): Buffer {
  const texts = rowsOf(node, perNode, phase).map(rowText);
  const ordered = order === "kept" ? texts : shuffled(texts, createRandom(node * 2 + phase));
  return Buffer.from(`{"sandboxes":[${ordered.join(",")}]}\n`);
}

/** Body of one node's `GET /v1/info`. */
export function infoBody(address: string, peers: readonly string[], claimed: number, warm: number = POOL.warm): Buffer {
  const key = { template: POOL.template, net: POOL.net, size: POOL.size };
  return Buffer.from(
    `${JSON.stringify({
      pools: [{ key, warm, refilling: 0, target: Math.max(POOL.target, warm), golden: true }],
      templates: [],
      claimed,
      hibernated: 0,
      archived: 0,
      advertise_addr: address,
      peers: peers.filter((peer) => peer !== address),
    })}\n`,
  );
}
