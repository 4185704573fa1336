import { randomBytes } from "node:crypto";
import type {
  CheckpointRecord,
  CheckpointRequest,
  ClaimReply,
  ForkReply,
  ForkRequest,
  PromoteReply,
  PromoteRequest,
} from "@org/sandboxd-client/wire";
import type { CaptureStore } from "../host/capture-store.ts";
import type { Guest } from "../host/guest.ts";
import type { Trees } from "../host/trees.ts";
import { checkpointNote, type Checkpoints } from "./checkpoints.ts";
import { checkName, grantLease, readOnExpire } from "./claim-rules.ts";
import type { Deliver } from "./delivery.ts";
import type { NodeMetrics } from "./metrics.ts";
import type { Pools } from "./pools.ts";
import { Refusal } from "./refusal.ts";
import type { Roster } from "./roster.ts";
import type { Sandbox } from "./sandbox.ts";
import { describeTemplate, templateNote, type Templates } from "./templates.ts";

/** Options of {@link createCaptures}. */
export interface CaptureOptions {
  readonly store: CaptureStore;
  readonly trees: Pick<Trees, "digest">;
  readonly pools: Pools;
  readonly roster: Roster;
  readonly templates: Templates;
  readonly checkpoints: Checkpoints;
  readonly deliver: Deliver;
  readonly metrics: NodeMetrics;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** The node is going away: what has just started is not handed out. */
  readonly closed: () => boolean;
}

/** The verbs that copy a sandbox. Memory is not copied: what comes of a copy starts with the files alone. */
export interface Captures {
  /** All children or a rejection; an abort rejects and leaves none. Node API §7.5. */
  fork(sandbox: Sandbox, request: ForkRequest, signal: AbortSignal): Promise<ForkReply>;
  /** Node API §8.1. */
  checkpoint(sandbox: Sandbox, request: CheckpointRequest): Promise<CheckpointRecord>;
  /** Node API §8.5. */
  promote(sandbox: Sandbox, request: PromoteRequest): Promise<PromoteReply>;
}

const MAX_FORK_COUNT = 16;

/** @throws Refusal 400 */
function checkForkCount(count: number): void {
  if (count < 1 || count > MAX_FORK_COUNT) {
    throw new Refusal(400, `invalid fork count: ${count} is not from 1 to ${MAX_FORK_COUNT} (max_fork_count)`);
  }
}

/** Makes the verbs. */
export function createCaptures(options: CaptureOptions): Captures {
  const { store, trees, pools, roster, templates, checkpoints, deliver, metrics, now } = options;

  /** Starts guests from one copy: all, or none. */
  const startAll = async (
    sandbox: Sandbox,
    tree: string,
    count: number,
    signal: AbortSignal,
  ): Promise<readonly Guest[]> => {
    const { key, guest: parent } = sandbox.facts;
    const stop = new AbortController();
    const onAbort = (): void => stop.abort(signal.reason);
    signal.addEventListener("abort", onAbort);
    try {
      const capture = { tree, owners: parent.owners };
      const starts = Array.from({ length: count }, async () => {
        try {
          return (await pools.provision(key, stop.signal, capture)).guest;
        } catch (error) {
          stop.abort(error);
          throw error;
        }
      });
      const results = await Promise.allSettled(starts);
      const guests = results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
      if (guests.length === count && !signal.aborted && !options.closed()) {
        return guests;
      }
      await Promise.allSettled(guests.map((guest) => guest.destroy()));
      const failure = results.find((result) => result.status === "rejected");
      throw new Refusal(500, "fork failed", failure === undefined ? {} : { cause: stop.signal.reason });
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  };

  return {
    fork: async (sandbox, request, signal) => {
      const began = performance.now();
      const { count } = request;
      checkForkCount(count);
      const onExpire = readOnExpire(request.on_expire);
      sandbox.mustBeCapturable();
      const { key, tenant, metadata } = sandbox.facts;
      const held = roster.hold(tenant, count);
      try {
        await using draft = store.draft();
        await sandbox.capture(draft.tree, { signal });
        const guests = await startAll(sandbox, draft.tree, count, signal);
        const seconds = (performance.now() - began) / 1000 / count;
        const children = guests.map((guest): ClaimReply => {
          const prefix = request.claim_ref_prefix ?? "";
          const reply = deliver(guest, key, {
            tenant,
            claimRef: prefix === "" ? "" : `${prefix}${guest.id}`,
            metadata,
            leaseSeconds: grantLease(request.ttl_seconds),
            onExpire: onExpire ?? sandbox.onExpire,
          });
          metrics.claimed("clone", seconds);
          return reply;
        });
        metrics.forked();
        return { children };
      } catch (error) {
        // Nobody waits for it any more: that is no failure.
        throw signal.aborted ? new Refusal(500, "fork failed") : error;
      } finally {
        held.free();
      }
    },

    checkpoint: async (sandbox, request) => {
      const name = request.name ?? "";
      if (name !== "") {
        checkName("checkpoint name", name);
      }
      sandbox.mustBeCapturable();
      await using draft = store.draft();
      await sandbox.capture(draft.tree);
      const { key, tenant, guest } = sandbox.facts;
      const record: CheckpointRecord = {
        id: `ck_${randomBytes(8).toString("hex")}`,
        ...(name === "" ? {} : { name }),
        sandbox_id: sandbox.id,
        key,
        ...(tenant === undefined ? {} : { tenant }),
        created_at: new Date(now()).toISOString(),
      };
      const capture = await store.keep(draft, guest.owners, checkpointNote(record));
      checkpoints.add({ record, capture });
      metrics.checkpointed();
      return record;
    },

    promote: async (sandbox, request) => {
      checkName("template name", request.template);
      const { tenant, guest } = sandbox.facts;
      const key = { ...sandbox.facts.key, template: request.template };
      const check = (): void => templates.mustBePromotable(key, tenant);
      sandbox.mustBeCapturable();
      check();
      await using draft = store.draft();
      await sandbox.capture(draft.tree);
      const digest = await trees.digest({ tree: draft.tree, owners: guest.owners });
      const info = describeTemplate(key, { digest, tenant, createdAt: new Date(now()) });
      const capture = await store.keep(draft, guest.owners, templateNote(info));
      try {
        check();
      } catch (error) {
        await capture.remove();
        throw error;
      }
      templates.put({ info, capture });
      metrics.promoted();
      return { key, content_digest: digest };
    },
  };
}
