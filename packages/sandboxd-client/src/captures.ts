import { idSegment } from "./address.ts";
import { readClaimOutcome, readDelivered, type ClaimOutcome } from "./claim-outcome.ts";
import { unlessGone, type CallOptions, type ClaimCallOptions, type Requester } from "./requester.ts";
import { readCheckpoint, readCheckpoints, readPromotion } from "./wire/reply-readers.ts";
import type { CheckpointRecord, CheckpointRequest, ForkRequest, PromoteReply, PromoteRequest } from "./wire/capture.ts";
import type { CheckpointClaimRequest, ClaimReply } from "./wire/claim.ts";
import type { StringMap, WirePoolKey } from "./wire/common.ts";
import { listOf, readFields } from "./wire/readers.ts";

/**
 * Calls that copy a sandbox, or change what claims start from. Fork, checkpoint and promotion write a guest's memory
 * and have `captureTimeoutMs` instead of `requestTimeoutMs`.
 */
export interface CaptureCalls {
  /**
   * §7.5. Not repeatable. Resolves with the children as the node sent them: compare their number with the count. A
   * reply in which two children, or a child and its parent, have one id is refused.
   */
  fork(id: string, request: ForkRequest, options?: ClaimCallOptions): Promise<readonly ClaimReply[]>;
  /** §8.1. Not repeatable. A reply about another sandbox is refused. */
  checkpoint(id: string, request: CheckpointRequest, options?: CallOptions): Promise<CheckpointRecord>;
  /** This node's checkpoints, newest first. Records without an id are left out. §8.2. */
  checkpoints(options?: CallOptions): Promise<readonly CheckpointRecord[]>;
  /** §8.3. Not repeatable, as a claim. Nodes may ignore `claim_ref`: check the row. */
  claimCheckpoint(
    checkpointId: string,
    request: CheckpointClaimRequest,
    options?: ClaimCallOptions,
  ): Promise<ClaimOutcome>;
  /** Resolves for a checkpoint that is already gone. §8.4. */
  deleteCheckpoint(checkpointId: string, options?: CallOptions): Promise<void>;
  /** §8.5. A reply about another template is refused. */
  promote(id: string, request: PromoteRequest, options?: CallOptions): Promise<PromoteReply>;
  /** On this node alone. Resolves for a template that is already gone. With a digest only that build goes. §8.6. */
  deleteTemplate(key: WirePoolKey, digest?: string, options?: CallOptions): Promise<void>;
  /** Replaces all labels; with a digest only that build's. §8.7. */
  setTemplateLabels(key: WirePoolKey, labels: StringMap, digest?: string, options?: CallOptions): Promise<void>;
  /** Replaces the document that the guest reads about itself; the bytes are sent as they are. §7.7. */
  setInstanceMetadata(id: string, document: Uint8Array, options?: CallOptions): Promise<void>;
}

/** The capture calls of one node. */
export function captureCalls(requester: Requester): CaptureCalls {
  const timeoutMs = requester.captureTimeoutMs;
  return {
    async fork(id, request, call = {}) {
      const path = `/v1/sandboxes/${idSegment(id)}/fork`;
      return requester.ask({ ...call, method: "POST", path, body: request, timeoutMs }, (value) =>
        readChildren(value, id),
      );
    },

    async checkpoint(id, request, call = {}) {
      const path = `/v1/sandboxes/${idSegment(id)}/checkpoint`;
      return requester.ask({ ...call, method: "POST", path, body: request, timeoutMs }, (value) => {
        const record = readCheckpoint(readFields(value, "the reply")["checkpoint"]);
        if (record === undefined) {
          throw new TypeError("no checkpoint");
        }
        if (record.sandbox_id !== id) {
          throw new TypeError("a checkpoint of another sandbox");
        }
        return record;
      });
    },

    async checkpoints(call = {}) {
      return requester.ask({ ...call, method: "GET", path: "/v1/checkpoints", expects: 200 }, readCheckpoints);
    },

    async claimCheckpoint(checkpointId, request, call = {}) {
      return requester.ask(
        {
          ...call,
          method: "POST",
          path: `/v1/checkpoints/${idSegment(checkpointId)}/claim`,
          // Whoever has the id may branch the checkpoint: errors do not repeat it.
          label: "POST /v1/checkpoints/{id}/claim",
          body: request,
          expects: 200,
        },
        readClaimOutcome,
      );
    },

    async deleteCheckpoint(checkpointId, call = {}) {
      await unlessGone(
        requester.send({
          ...call,
          method: "DELETE",
          path: `/v1/checkpoints/${idSegment(checkpointId)}`,
          label: "DELETE /v1/checkpoints/{id}",
          expects: 204,
        }),
      );
    },

    async promote(id, request, call = {}) {
      const path = `/v1/sandboxes/${idSegment(id)}/promote`;
      return requester.ask({ ...call, method: "POST", path, body: request, timeoutMs }, (value) => {
        const promotion = readPromotion(value);
        if (promotion.key.template !== request.template) {
          throw new TypeError("a promotion to another template");
        }
        return promotion;
      });
    },

    async deleteTemplate(key, digest, call = {}) {
      const query = templateQuery(key, digest);
      query.set("no_redirect", "1");
      await unlessGone(
        requester.send({ ...call, method: "DELETE", path: `/v1/templates?${query.toString()}`, expects: 204 }),
      );
    },

    async setTemplateLabels(key, labels, digest, call = {}) {
      await requester.send({
        ...call,
        method: "PUT",
        path: `/v1/templates/labels?${templateQuery(key, digest).toString()}`,
        body: { labels },
        expects: 204,
      });
    },

    async setInstanceMetadata(id, document, call = {}) {
      await requester.send({
        ...call,
        method: "PUT",
        path: `/v1/sandboxes/${idSegment(id)}/instance-metadata`,
        rawBody: document,
        expects: 204,
      });
    },
  };
}

/** Members that are empty take the node's defaults and are left out. */
function templateQuery(key: WirePoolKey, digest: string | undefined): URLSearchParams {
  const query = new URLSearchParams({ template: key.template });
  for (const [name, value] of Object.entries({ net: key.net, size: key.size, digest })) {
    if (value !== undefined && value !== "") {
      query.set(name, value);
    }
  }
  return query;
}

function readChildren(value: unknown, parent: string): readonly ClaimReply[] {
  const children = listOf(readFields(value, "the reply")["children"], "children").map(readDelivered);
  const ids = new Set(children.map((child) => child.id));
  if (ids.size !== children.length || ids.has(parent)) {
    throw new TypeError("children that share an id, or have their parent's");
  }
  return children;
}
