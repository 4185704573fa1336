import { claimRows } from "./faults/claim-rows.ts";
import { clockRows } from "./faults/clock-rows.ts";
import type { FaultContext, FaultRow } from "./faults/context.ts";
import { hungRows } from "./faults/hung-rows.ts";
import { lifeRows } from "./faults/life-rows.ts";
import { lieRows } from "./faults/lie-rows.ts";
import { readRows } from "./faults/read-rows.ts";
import { restartRows } from "./faults/restart-rows.ts";
import { tlsRows } from "./faults/tls-rows.ts";

/** Rows in which nodes and processes fail, in lanes that run side by side: most of them wait. */
export function faultLanes(context: FaultContext): readonly (readonly FaultRow[])[] {
  return [
    claimRows(context),
    lieRows(context),
    [...readRows(context), ...restartRows(context)],
    [...clockRows(context), ...tlsRows(context)],
    lifeRows(context),
    ...hungRows(context),
  ];
}
