/** What a scripted node says and does. It travels as JSON, in a file beside the node's claims. */
export interface NodeScript {
  /** Grows with every change; the node says when it has taken it. */
  readonly version: number;
  /** What `advertise_addr` says, and `owner_addr`; empty leaves both out. */
  readonly advertise: string;
  readonly peers: readonly string[];
  /** The root token. */
  readonly token: string;
  /** Tokens of tenants: refused with 403 on root routes. */
  readonly tenantTokens: readonly string[];
  readonly pools: readonly ScriptedPool[];
  /** Where a claim is sent when nothing is warm and the claim may be redirected. */
  readonly redirect: readonly string[];
  /** The first one that fits a request applies. */
  readonly faults: readonly Fault[];
  /** Period of the reaper in milliseconds. Real nodes take 5 s. */
  readonly reapMs: number;
  /** Nodes tell times in their own zone: minutes that this one is east of Greenwich. */
  readonly zoneMinutes: number;
  /** Close connections that idle for so long, in milliseconds; 0 keeps them. */
  readonly idleMs: number;
  /** Where relays lead; absent: nothing listens in any guest. */
  readonly relays?: ScriptedRelayPorts;
}

/** Guest ports of a scripted node's sandboxes, by their number. */
export interface ScriptedRelayPorts {
  /** `host:port` that stands for the guest's; `*` is for all ports that are not named, and as a port for the same one. */
  readonly guests: Readonly<Record<string, string>>;
  /** Ports at which the node answers the wish for a relay with these bytes, and what it does then. */
  readonly tricks: Readonly<Record<string, { readonly bytes: string; readonly ending: "end" | "reset" | "hang" }>>;
}

/** A pool of a scripted node. It never boots cold: a claim that finds nothing warm is redirected or refused. */
export interface ScriptedPool {
  readonly template: string;
  readonly net: string;
  readonly size: string;
  /** Guests that are really there. */
  readonly warm: number;
  /** JSON text that the info reply has for `warm`, whatever is there: `NaN`, `-3`, `1e400`. Empty tells the truth. */
  readonly says: string;
}

/** Routes that faults can be put on. */
export type FaultRoute = "info" | "index" | "sandbox" | "claim" | "release" | "renew" | "hibernate" | "wake";

/** Something that goes wrong with a request. */
export interface Fault {
  readonly route: FaultRoute;
  /** `before` the node has done what it was asked, or `after`, in place of the reply. */
  readonly when: "before" | "after";
  readonly act:
    | { readonly kind: "die" | "hang" | "cut" }
    /** Goes on as if nothing was, later. */
    | { readonly kind: "delay"; readonly ms: number }
    /** `$ID` and `$TOKEN` in the body are those of the sandbox; `$PAD` is that many bytes. */
    | {
        readonly kind: "reply";
        readonly status: number;
        readonly body: string;
        readonly type?: string;
        readonly pad?: number;
      }
    /** Headers, then nothing. */
    | { readonly kind: "stall" }
    /** Headers, then the body at one byte per period. */
    | { readonly kind: "trickle"; readonly everyMs: number };
  /** Applies so often. Absent: always. */
  readonly times?: number;
}

/** A sandbox as a scripted node keeps it. */
export interface ScriptedClaim {
  readonly id: string;
  readonly token: string;
  readonly template: string;
  readonly net: string;
  readonly size: string;
  readonly claimRef: string;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  readonly onExpire: "destroy" | "archive";
  readonly claimedAtMs: number;
  readonly ttlSeconds: number;
  deadlineMs: number;
  hibernated: boolean;
}

/** One line of a node's journal. */
export type JournalLine =
  | {
      readonly at: number;
      readonly kind: "request";
      readonly route: string;
      readonly id?: string | undefined;
      readonly claimRef?: string | undefined;
      readonly noRedirect?: boolean | undefined;
    }
  | {
      readonly at: number;
      readonly kind: "delivered";
      readonly id: string;
      readonly token: string;
      readonly claimRef: string;
      readonly deadlineMs: number;
    }
  | { readonly at: number; readonly kind: "ended"; readonly id: string; readonly why: "released" | "expired" };

/** Names of the files in a scripted node's folder. */
export const NODE_FILES = { script: "script.json", claims: "claims.json", journal: "journal.jsonl" } as const;

/** The info reply as text, since a pool may say what JSON cannot. */
export function infoText(script: NodeScript, pools: readonly ScriptedPool[], claims: readonly ScriptedClaim[]): string {
  const listed = pools.map(({ template, net, size, warm, says }) => {
    const key = JSON.stringify({ template, net, size });
    return `{"key":${key},"warm":${says === "" ? warm : says},"refilling":0,"target":${warm},"golden":true}`;
  });
  const rest = {
    templates: [],
    claimed: claims.length,
    hibernated: claims.filter((claim) => claim.hibernated).length,
    archived: 0,
    ...(script.advertise === "" ? {} : { advertise_addr: script.advertise }),
    peers: script.peers,
  };
  return `{"pools":[${listed.join(",")}],${JSON.stringify(rest).slice(1)}`;
}

/** A time as a node of that zone writes it: RFC 3339 with its offset and fractions of a second. */
export function wireTime(ms: number, zoneMinutes: number): string {
  if (zoneMinutes === 0) {
    return new Date(ms).toISOString();
  }
  const local = new Date(ms + zoneMinutes * 60_000).toISOString().slice(0, -1);
  const away = Math.abs(zoneMinutes);
  const two = (value: number): string => String(value).padStart(2, "0");
  return `${local}456789${zoneMinutes < 0 ? "-" : "+"}${two(Math.floor(away / 60))}:${two(away % 60)}`;
}

/** A claim as the index shows it; the by-id read adds the token. */
export function rowOf(claim: ScriptedClaim, zoneMinutes: number): Record<string, unknown> {
  return {
    id: claim.id,
    key: { template: claim.template, net: claim.net, size: claim.size },
    deadline: wireTime(claim.deadlineMs, zoneMinutes),
    claimed_at: wireTime(claim.claimedAtMs, zoneMinutes),
    hibernated: claim.hibernated,
    claim_ref: claim.claimRef,
    ...(claim.metadata === undefined ? {} : { metadata: claim.metadata }),
    ...(claim.onExpire === "archive" ? { on_expire: "archive" } : {}),
  };
}
