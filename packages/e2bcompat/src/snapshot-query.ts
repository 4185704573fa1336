import { matchesSandboxId } from "@org/sandbox-address";
import type { Snapshot } from "@org/scale";
import { decodeCursor, encodeCursor, nextToken, pageLimit } from "./list-query.ts";
import type { Position } from "./list-query.ts";
import { E2bError } from "./errors.ts";
import { anyText, queryOf } from "./query.ts";
import type { Query } from "./query.ts";
import { madeAt } from "./snapshots.ts";

/** What a listing of snapshots asks for. */
export interface SnapshotQuery {
  /** Of this sandbox only, in either spelling. */
  readonly sandboxId: string | undefined;
  /** Of exactly this name or id. */
  readonly name: string | undefined;
  readonly limit: number;
  readonly after: Position | undefined;
}

/** One page of snapshots. */
export interface SnapshotPage {
  readonly items: readonly Snapshot[];
  /** Set only when more items follow: clients ask for another page whenever they see a token. */
  readonly nextToken: string | undefined;
}

/** The query of `GET /snapshots`. */
export const snapshotQuery: Query<SnapshotQuery> = queryOf(
  {
    sandboxID: anyText("Only those of this sandbox."),
    name: anyText("Only those with exactly this name or id."),
    limit: pageLimit,
    nextToken,
  },
  ({ sandboxID, name, limit, nextToken: token }) => {
    const after = token === undefined ? undefined : decodeCursor(token, true);
    if (token !== undefined && after === undefined) {
      throw new E2bError("bad_request", "nextToken: not a token of this listing");
    }
    return { sandboxId: sandboxID, name, limit, after };
  },
);

/** Filters and cuts a listing that is ordered newest first. */
export function selectSnapshots(snapshots: readonly Snapshot[], query: SnapshotQuery): SnapshotPage {
  const { sandboxId, name, limit, after } = query;
  const rest = snapshots.filter(
    (snapshot) =>
      (sandboxId === undefined || matchesSandboxId(snapshot.sandboxId, sandboxId)) &&
      (name === undefined || snapshot.name === name || snapshot.id === name) &&
      (after === undefined || isAfter(snapshot, after)),
  );
  const items = rest.slice(0, limit);
  const last = items.at(-1);
  const following =
    rest.length > limit && last !== undefined
      ? encodeCursor({ startedMs: madeAt(last), id: last.id }, true)
      : undefined;
  return { items, nextToken: following };
}

function isAfter(snapshot: Snapshot, { startedMs, id }: Position): boolean {
  const ms = madeAt(snapshot);
  return ms !== startedMs ? ms < startedMs : snapshot.id < id;
}
