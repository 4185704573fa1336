import type { NodeInventory } from "@org/scale";
import { KubeError } from "./errors.ts";
import type { KubeClient } from "./kube-client.ts";
import { NODE_INVENTORIES, type InventoryObjectEntry, type NodeInventoryObject } from "./node-inventory.ts";

/** Options of {@link NodeInventoryApplier}. */
export interface NodeInventoryApplierOptions {
  readonly client: Pick<KubeClient, "request">;
  /** Owner of the fields that are written. @default cocoon-node-inventory-publisher */
  readonly fieldManager?: string | undefined;
}

const FIELD_MANAGER = "cocoon-node-inventory-publisher";

/** Writes `NodeInventory` objects as the publisher on a node does. For test rigs and tools. */
export class NodeInventoryApplier {
  readonly #client: Pick<KubeClient, "request">;
  readonly #fieldManager: string;

  constructor({ client, fieldManager = FIELD_MANAGER }: NodeInventoryApplierOptions) {
    this.#client = client;
    this.#fieldManager = fieldManager;
  }

  /**
   * Creates or updates an object, taking fields over that somebody else wrote.
   * @throws KubeError; after `timeout`, `connection_lost` and `aborted` it may have been written.
   */
  async apply(object: NodeInventoryObject, options: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    const { group, version } = NODE_INVENTORIES;
    const { metadata, ...fields } = object;
    await this.#client.request({
      method: "PATCH",
      path: pathOf(metadata.name),
      query: { fieldManager: this.#fieldManager, force: "true" },
      // A version would make it a condition, and the time of creation is not ours to write.
      body: { ...fields, apiVersion: `${group}/${version}`, kind: "NodeInventory", metadata: { name: metadata.name } },
      contentType: "application/apply-patch+yaml",
      signal: options.signal,
    });
  }

  /** Resolves for an object that is already gone. @throws KubeError */
  async delete(node: string, options: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    try {
      await this.#client.request({ method: "DELETE", path: pathOf(node), signal: options.signal });
    } catch (error) {
      if (!(error instanceof KubeError && error.status === 404)) {
        throw error;
      }
    }
  }
}

/**
 * The object that a publisher writes for a node's view.
 * @param publishedAt when it is written; whole seconds are kept
 */
export function nodeInventoryObject(view: NodeInventory, publishedAt: Date): NodeInventoryObject {
  const { node, address, entries, pools, templates } = view;
  return {
    metadata: { name: node },
    node,
    address,
    publishedAt: rfc3339(publishedAt),
    entries: entries.map(
      ({ name, phase, id, template, claimRef, addr, deadline, claimedAt, metadata, cpuCount, memoryBytes }) =>
        ({
          name,
          phase,
          id: id === "" ? undefined : id,
          template,
          claimRef,
          addr,
          deadline: deadline && rfc3339(deadline),
          claimedAt: claimedAt && rfc3339(claimedAt),
          claimMetadata: metadata && JSON.stringify(metadata),
          cpuCount,
          memoryBytes,
        }) satisfies InventoryObjectEntry,
    ),
    pools: pools.map(({ template, net, size, warm, target }) => ({ template, net, size, warm, target })),
    templates: templates.map(({ createdAt, tenant, ...rest }) => ({
      ...rest,
      tenant: tenant === "" ? undefined : tenant,
      createdAt: createdAt && rfc3339(createdAt),
    })),
  };
}

function pathOf(node: string): string {
  const { group, version, plural } = NODE_INVENTORIES;
  return `/apis/${group}/${version}/${plural}/${encodeURIComponent(node)}`;
}

function rfc3339(time: Date): string {
  return `${time.toISOString().slice(0, 19)}Z`;
}
