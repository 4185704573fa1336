import type { Snapshot } from "@org/scale";
import { json } from "../answer.ts";
import type { Answer } from "../answer.ts";
import type { Call } from "../call.ts";
import { nodeName } from "../node-name.ts";
import { findSandbox } from "../service.ts";
import type { Service } from "../service.ts";
import { selectSnapshots } from "../snapshot-query.ts";
import type { SnapshotQuery } from "../snapshot-query.ts";
import type { SnapshotReply } from "../wire/replies.ts";
import type { SnapshotSandbox } from "../wire/requests.ts";

function snapshotReply({ id, name }: Snapshot): SnapshotReply {
  return { snapshotID: id, names: name === "" ? [] : [name] };
}

/** `POST /sandboxes/{sandboxID}/snapshots`: the sandbox goes on. A paused one is not woken. */
export async function createSnapshot(
  service: Service,
  call: Call,
  asked: string,
  body: SnapshotSandbox,
): Promise<Answer> {
  const name = body.name ?? "";
  nodeName("name", `${call.namespace}/`, name);
  const { node, id } = await findSandbox(service, call, asked);
  // It is finished even when the client hangs up: the node would carry it out anyway.
  const snapshot = await service.store.snapshot(call.namespace, node, id, name);
  service.snapshots.remember(call.namespace, snapshot);
  return json(201, snapshotReply(snapshot));
}

/** `GET /snapshots`: page by page, newest first. */
export async function listSnapshots(service: Service, call: Call, query: SnapshotQuery): Promise<Answer> {
  const snapshots = await service.snapshots.list(call.namespace, call.signal);
  const { items, nextToken } = selectSnapshots(snapshots, query);
  return json(200, items.map(snapshotReply), nextToken === undefined ? undefined : { "x-next-token": nextToken });
}
