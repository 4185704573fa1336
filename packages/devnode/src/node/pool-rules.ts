import type { FullPoolKey, PoolsRequest } from "@org/sandboxd-client/wire";
import { keyText, readPoolKey } from "./pool-key.ts";
import type { PoolConfig } from "./pools.ts";
import { Refusal } from "./refusal.ts";

/** Checks the bounds of node API §9.3. @throws Refusal 400, 409 */
export function readPools(request: PoolsRequest, checkLane: (key: FullPoolKey) => void): PoolConfig[] {
  const seen = new Set<string>();
  return request.pools.map((spec) => {
    const key = readPoolKey(spec);
    const refuse = (what: string): never => {
      throw new Refusal(400, `invalid fork count: pool ${keyText(key)}: ${what}`);
    };
    const { warm, warm_max: warmMax = 0 } = spec;
    const idle = spec.idle_hibernate_seconds ?? 0;
    const archiveAfter = spec.archive_after_seconds ?? 0;
    const archiveDelete = spec.archive_delete_after_seconds ?? 0;
    if (seen.has(keyText(key))) {
      refuse("the key is there twice");
    }
    seen.add(keyText(key));
    if (warm < 0) {
      refuse("warm is negative");
    }
    if (warmMax < 0 || (warmMax > 0 && warmMax < warm)) {
      refuse("warm_max is below warm");
    }
    if (idle < 0) {
      refuse("idle_hibernate_seconds is negative");
    }
    if (idle > 0 && key.net === "egress") {
      refuse("egress-lane sandboxes do not hibernate");
    }
    if (archiveAfter < 0 || archiveDelete < 0) {
      refuse("archive windows are negative");
    }
    if (archiveAfter > 0 && archiveAfter <= idle) {
      refuse("archive_after_seconds must exceed idle_hibernate_seconds");
    }
    if (archiveAfter > 0 && idle === 0) {
      refuse("archive_after_seconds needs idle_hibernate_seconds");
    }
    if (archiveDelete > 0 && archiveAfter === 0) {
      refuse("archive_delete_after_seconds needs archive_after_seconds");
    }
    checkLane(key);
    return {
      key,
      warm,
      warmMax,
      idleHibernateSeconds: idle,
      archiveAfterSeconds: archiveAfter,
      archiveDeleteAfterSeconds: archiveDelete,
    };
  });
}
