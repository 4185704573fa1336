import { badRequest, checkClaimInput } from "./claim-input.ts";
import type { Deliveries } from "./deliveries.ts";
import type { Assignment, PoolKey, PromotedTemplate, Promotion, Snapshot } from "./domain.ts";
import { ScaleError } from "./errors.ts";
import type { NodeCalls } from "./node-calls.ts";
import type { CallOptions, NodeFork, SandboxCaptures } from "./ports.ts";
import { readBack } from "./read-back.ts";
import { nameWithin, stampedName } from "./snapshot-names.ts";

/** What {@link Captures} work with. */
export interface CaptureParts {
  readonly calls: NodeCalls;
  readonly deliveries: Deliveries;
}

type ForkOptions = Parameters<SandboxCaptures["fork"]>[3];

/** Copies of sandboxes, and templates. Claims of snapshots are claims: see `SandboxClaims`. */
export class Captures implements Omit<SandboxCaptures, "claimSnapshot"> {
  readonly #parts: CaptureParts;

  constructor(parts: CaptureParts) {
    this.#parts = parts;
  }

  async fork(
    namespace: string,
    node: string,
    id: string,
    { count, ttlSeconds, onExpire }: ForkOptions,
    { signal }: CallOptions = {},
  ): Promise<readonly Assignment[]> {
    const { calls, deliveries } = this.#parts;
    const verb = { verb: "fork", node, id };
    calls.clients(verb.verb);
    checkClaimInput("fork", { namespace, ttlSeconds });
    if (!Number.isSafeInteger(count) || count < 1) {
      throw badRequest("fork", "a fork makes a whole number of sandboxes, at least 1");
    }
    const owner = calls.nodeOf(verb);
    const fork: NodeFork = { count, ttlSeconds, claimRefPrefix: `${namespace}/`, onExpire };
    const func = "scale.Fork";
    return deliveries.deliver(func, signal, () =>
      calls.call(verb, undefined, async (client, clients) => {
        const children = (await client.fork(id, fork, { signal })).map((reply) => ({ node: owner, reply }));
        const [first] = children;
        try {
          if (first === undefined || children.length !== count) {
            throw new ScaleError(
              "node_failed",
              `sandboxd fork of "${id}" on node "${node}": ${children.length} children instead of ${count}`,
              verb,
            );
          }
          // They are alike, and made by one node: what the first one's row tells holds for all.
          const entry = await readBack(clients, "fork", first, `${namespace}/${first.reply.id}`);
          return children.map((child) => {
            const claimRef = `${namespace}/${child.reply.id}`;
            const { id: childId, deadline } = child.reply;
            return { ...child, entry: { ...entry, id: childId, name: claimRef, claimRef, deadline } };
          });
        } catch (error) {
          await deliveries.abandon(children, func, "its node did not fork as it was asked to");
          throw error;
        }
      }),
    );
  }

  async snapshot(
    namespace: string,
    node: string,
    id: string,
    name: string,
    options: CallOptions = {},
  ): Promise<Snapshot> {
    const stamped = stampedName(namespace, name);
    const verb = { verb: "checkpoint", node, id };
    return this.#parts.calls.write(verb, options, async (client) => ({
      ...(await client.checkpoint(id, stamped)),
      name,
      node,
    }));
  }

  async snapshots(namespace: string, node: string, options: CallOptions = {}): Promise<readonly Snapshot[]> {
    const verb = { verb: "checkpoints", node, plain: true };
    const held = await this.#parts.calls.call(verb, options.signal, (client) => client.checkpoints(options));
    const own: Snapshot[] = [];
    for (const checkpoint of held) {
      const name = nameWithin(namespace, checkpoint.name);
      if (name !== undefined) {
        own.push({ ...checkpoint, name, node });
      }
    }
    return own.sort((a, b) => madeAt(b) - madeAt(a));
  }

  deleteSnapshot(node: string, snapshotId: string, options: CallOptions = {}): Promise<void> {
    const verb = { verb: "delete checkpoint", node, id: snapshotId, plain: true };
    return this.#parts.calls.write(verb, options, (client) => client.deleteCheckpoint(snapshotId));
  }

  promote(node: string, id: string, template: string, options: CallOptions = {}): Promise<Promotion> {
    const verb = { verb: "promote", node, id };
    return this.#parts.calls.write(verb, options, (client) => client.promote(id, template));
  }

  deleteTemplate(node: string, key: PoolKey, digest?: string, options: CallOptions = {}): Promise<void> {
    const verb = { verb: "delete template", node, id: key.template };
    return this.#parts.calls.write(verb, options, (client) => client.deleteTemplate(key, digest));
  }

  setTemplateLabels(
    node: string,
    key: PoolKey,
    labels: Readonly<Record<string, string>>,
    digest?: string,
    options: CallOptions = {},
  ): Promise<void> {
    const verb = { verb: "template labels", node, id: key.template };
    return this.#parts.calls.write(verb, options, (client) => client.setTemplateLabels(key, labels, digest));
  }

  nodeTemplates(node: string, options: CallOptions = {}): Promise<readonly PromotedTemplate[]> {
    const verb = { verb: "templates", node, plain: true };
    return this.#parts.calls.call(verb, options.signal, (client) => client.templates(options));
  }

  setInstanceMetadata(node: string, id: string, document: Uint8Array, options: CallOptions = {}): Promise<void> {
    const verb = { verb: "instance metadata", node, id };
    return this.#parts.calls.write(verb, options, (client) => client.setInstanceMetadata(id, document));
  }
}

function madeAt(snapshot: Snapshot): number {
  return snapshot.createdAt?.getTime() ?? 0;
}
