import { randomBytes } from "node:crypto";
import type { ClaimReply, FullPoolKey, OnExpire, StringMap } from "@org/sandboxd-client/wire";
import type { Guest } from "../host/guest.ts";
import { digest } from "./access.ts";
import type { Roster } from "./roster.ts";
import { Sandbox } from "./sandbox.ts";

/** Options of {@link createDelivery}. */
export interface DeliveryOptions {
  readonly roster: Roster;
  /** This node's client address. */
  readonly address: () => string | undefined;
  /** What an egress-lane claim reports as its route. */
  readonly egressRoute: "relay" | "direct";
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** What a claim grants. */
export interface Grant {
  readonly tenant: string | undefined;
  /** Empty for none. */
  readonly claimRef: string;
  readonly metadata: StringMap;
  readonly leaseSeconds: number;
  readonly onExpire: OnExpire;
  /** `false` closes the way out. */
  readonly egress?: boolean | undefined;
  readonly fromCheckpoint?: string | undefined;
  /** Digest of the promoted template that the guest was cloned from. */
  readonly templateDigest?: string | undefined;
}

/** Makes a sandbox of a guest. */
export type Deliver = (guest: Guest, key: FullPoolKey, grant: Grant) => ClaimReply;

/** Makes the last step of every claim. */
export function createDelivery({ roster, address, egressRoute, now }: DeliveryOptions): Deliver {
  return (guest, key, grant) => {
    const token = randomBytes(16).toString("hex");
    const { tenant, claimRef, metadata, fromCheckpoint, templateDigest } = grant;
    const sandbox = new Sandbox(
      { guest, key, token, tokenDigest: digest(token), tenant, claimRef, metadata, fromCheckpoint },
      grant.leaseSeconds,
      grant.onExpire,
      now,
    );
    roster.add(sandbox);
    if (grant.egress === false) {
      guest.setEgress(false);
    }
    const owner = address();
    return {
      id: sandbox.id,
      token,
      deadline: new Date(sandbox.deadline ?? now()).toISOString(),
      ...(owner === undefined ? {} : { owner_addr: owner }),
      net_route: key.net === "egress" && grant.egress !== false ? egressRoute : "none",
      ...(templateDigest === undefined ? {} : { template_digest: templateDigest }),
      ...(fromCheckpoint === undefined ? {} : { from_checkpoint: fromCheckpoint }),
    };
  };
}
