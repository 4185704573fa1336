import { setTimeout as delay } from "node:timers/promises";

import { NodeInventoryApplier, nodeInventoryObject } from "@org/kubeinventory";
import { KubeClient, loadClusterConfig } from "@org/kubeinventory/client";
import { createNodePool, createSandboxdClient } from "@org/sandboxd-client";
import { entryFromRow, poolsFromInfo, templatesFromInfo } from "@org/scale/sandboxd";

/** A node that is published. */
export interface PublishedNode {
  /** Name of its object. */
  readonly name: string;
  readonly address: string;
}

/** Writes `NodeInventory` objects of running nodes, as a publisher on each of them does. */
export interface KubePublisher extends AsyncDisposable {
  /** Publishes at once. A node that does not answer keeps its object. @throws when the cluster does not take it */
  publish(): Promise<void>;
  /** Leaves out a node that fell silent, or takes it in again. */
  silence(node: string, isSilent: boolean): void;
  /** Rewrites what is published, to publish what nodes would not. */
  alter(
    change: ((object: ReturnType<typeof nodeInventoryObject>) => ReturnType<typeof nodeInventoryObject>) | undefined,
  ): void;
}

/** Choices of {@link startKubePublisher}. */
export interface KubePublisherOptions {
  /** Of the cluster. */
  readonly kubeconfig: string;
  readonly nodes: readonly PublishedNode[];
  /** The nodes' operator token. */
  readonly token: string;
  /** Pause between two rounds, in milliseconds. */
  readonly everyMs: number;
}

const READ_LIMIT_MS = 5_000;

/** Publishes all nodes once, then again and again until its disposal. */
export async function startKubePublisher(options: KubePublisherOptions): Promise<KubePublisher> {
  const { nodes, token, everyMs } = options;
  const client = await KubeClient.connect(await loadClusterConfig({ env: {}, kubeconfig: options.kubeconfig }));
  const pool = createNodePool();
  const applier = new NodeInventoryApplier({ client });
  const silent = new Set<string>();
  const life = new AbortController();
  let change: Parameters<KubePublisher["alter"]>[0];

  const publishNode = async ({ name, address }: PublishedNode): Promise<void> => {
    const node = createSandboxdClient({ address, token, pool, requestTimeoutMs: READ_LIMIT_MS });
    const read = Promise.all([node.info(), node.index()]).catch(() => undefined);
    const known = await read;
    if (known === undefined) {
      return;
    }
    const [info, rows] = known;
    const view = {
      node: name,
      address,
      pools: poolsFromInfo(info),
      templates: templatesFromInfo(info),
      entries: rows.map(entryFromRow),
      asOfMs: 0,
    };
    const object = nodeInventoryObject(view, new Date());
    await applier.apply(change === undefined ? object : change(object), { signal: life.signal });
  };
  const publish = async (): Promise<void> => {
    await Promise.all(nodes.filter(({ name }) => !silent.has(name)).map(publishNode));
  };
  const rounds = async (): Promise<void> => {
    while (!life.signal.aborted) {
      await delay(everyMs, undefined, { signal: life.signal }).catch(() => undefined);
      // The cluster may be away: the next round finds it again.
      await publish().catch(() => undefined);
    }
  };
  await publish();
  const running = rounds();
  return {
    publish,
    silence: (node, isSilent) => void (isSilent ? silent.add(node) : silent.delete(node)),
    alter: (next) => {
      change = next;
    },
    [Symbol.asyncDispose]: async () => {
      life.abort();
      await running;
      await Promise.all([client.close(), pool.destroy()]);
    },
  };
}
