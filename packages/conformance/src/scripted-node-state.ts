import { randomBytes } from "node:crypto";
import { appendFileSync, existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import {
  type Fault,
  type FaultRoute,
  type JournalLine,
  NODE_FILES,
  type NodeScript,
  type ScriptedClaim,
  type ScriptedPool,
} from "./scripted-node-script.ts";

const DEFAULT_TTL_SECONDS = 300;
const MAX_TTL_SECONDS = 86_400;

/** Fields of a claim that a scripted node reads. */
export interface ClaimBody {
  readonly template?: string;
  readonly net?: string;
  readonly size?: string;
  readonly ttl_seconds?: number;
  readonly claim_ref?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly on_expire?: string;
  readonly no_redirect?: boolean;
}

/**
 * What a scripted node holds. Every change is in its files before the node answers, so that one that is killed at any
 * moment comes back with what it delivered.
 */
export class ScriptedState {
  readonly #dir: string;
  readonly #used = new Map<Fault, number>();
  #script: NodeScript;
  #pools: ScriptedPool[];
  readonly claims: Map<string, ScriptedClaim>;

  /** Reads the files in a folder. */
  constructor(dir: string) {
    this.#dir = dir;
    this.#script = readScript(dir);
    this.#pools = [...this.#script.pools];
    this.claims = new Map(readClaims(dir).map((claim) => [claim.id, claim]));
  }

  get script(): NodeScript {
    return this.#script;
  }

  get pools(): readonly ScriptedPool[] {
    return this.#pools;
  }

  /** Takes a new script. Its pools are full again, its faults unused. */
  reload(): void {
    this.#script = readScript(this.#dir);
    this.#pools = [...this.#script.pools];
    this.#used.clear();
  }

  /** The fault that this request meets, which is used up by it. */
  fault(route: FaultRoute, when: Fault["when"]): Fault | undefined {
    for (const fault of this.#script.faults) {
      const used = this.#used.get(fault) ?? 0;
      if (fault.route === route && fault.when === when && used < (fault.times ?? Infinity)) {
        this.#used.set(fault, used + 1);
        return fault;
      }
    }
    return undefined;
  }

  /** Takes a warm guest of the claim's pool; `undefined` when there is none. */
  deliver(body: ClaimBody): ScriptedClaim | undefined {
    const { template = "", net = "none", size = "small" } = body;
    const at = this.#pools.findIndex(
      (pool) => pool.template === template && pool.net === net && pool.size === size && pool.warm > 0,
    );
    const pool = this.#pools[at];
    if (pool === undefined) {
      return undefined;
    }
    this.#pools[at] = { ...pool, warm: pool.warm - 1 };
    const now = Date.now();
    const ttlSeconds = leaseOf(body.ttl_seconds);
    const claim: ScriptedClaim = {
      id: `sb_${randomBytes(8).toString("hex")}`,
      token: randomBytes(16).toString("hex"),
      template,
      net,
      size,
      claimRef: body.claim_ref ?? "",
      metadata: body.metadata,
      onExpire: body.on_expire === "archive" ? "archive" : "destroy",
      claimedAtMs: now,
      ttlSeconds,
      deadlineMs: now + ttlSeconds * 1000,
      hibernated: false,
    };
    this.claims.set(claim.id, claim);
    this.save();
    const { id, token, claimRef, deadlineMs } = claim;
    this.journal({ at: now, kind: "delivered", id, token, claimRef, deadlineMs });
    return claim;
  }

  /** Ends a sandbox; false when there is none of this id. */
  end(id: string, why: "released" | "expired"): boolean {
    const known = this.claims.delete(id);
    if (known) {
      this.save();
      this.journal({ at: Date.now(), kind: "ended", id, why });
    }
    return known;
  }

  /** Ends every sandbox whose lease is over. */
  reap(): void {
    const now = Date.now();
    for (const { id, deadlineMs } of this.claims.values()) {
      if (deadlineMs <= now) {
        this.end(id, "expired");
      }
    }
  }

  renew(claim: ScriptedClaim, ttlSeconds: number | undefined): void {
    claim.deadlineMs = Date.now() + leaseOf(ttlSeconds) * 1000;
    this.save();
  }

  save(): void {
    // Whoever reads it meanwhile reads all of the old or all of the new.
    const file = join(this.#dir, NODE_FILES.claims);
    writeFileSync(`${file}.new`, JSON.stringify([...this.claims.values()]));
    renameSync(`${file}.new`, file);
  }

  journal(line: JournalLine): void {
    appendFileSync(join(this.#dir, NODE_FILES.journal), `${JSON.stringify(line)}\n`);
  }
}

/** The sandboxes in a scripted node's folder. */
export function readClaims(dir: string): ScriptedClaim[] {
  const file = join(dir, NODE_FILES.claims);
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as ScriptedClaim[]) : [];
}

/** The journal in a scripted node's folder. */
export function readJournal(dir: string): JournalLine[] {
  const file = join(dir, NODE_FILES.journal);
  const text = existsSync(file) ? readFileSync(file, "utf8") : "";
  // A line that is being written has no end yet.
  return text
    .slice(0, text.lastIndexOf("\n") + 1)
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as JournalLine);
}

function readScript(dir: string): NodeScript {
  return JSON.parse(readFileSync(join(dir, NODE_FILES.script), "utf8")) as NodeScript;
}

function leaseOf(ttlSeconds: number | undefined): number {
  return ttlSeconds === undefined || ttlSeconds <= 0 ? DEFAULT_TTL_SECONDS : Math.min(ttlSeconds, MAX_TTL_SECONDS);
}
