import { formatDuration } from "@org/command-line";
import type { MeshFlags } from "@org/command-line";
import { KubeInventory } from "@org/kubeinventory";
import { KubeClient, loadClusterConfig } from "@org/kubeinventory/client";
import { MeshInventory } from "@org/meshinventory";
import { createNodePool } from "@org/sandboxd-client";
import type { InventorySource, Logger } from "@org/scale";

/** Where the nodes and their sandboxes are learned. */
export type InventoryConfig =
  | ({ readonly kind: "mesh" } & Pick<MeshFlags, "seeds" | "pollIntervalMs">)
  | { readonly kind: "kube"; readonly staleAfterMs: number };

/** Companions of {@link startInventory}. */
export interface InventoryOptions {
  /** The nodes' operator token, and authorities for their certificates. */
  readonly token: string;
  readonly ca: string | undefined;
  /** Ends the inventory; what it knows stays. */
  readonly signal: AbortSignal;
  readonly logger: Logger;
  /** Where a cluster's configuration may be. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly home: string;
}

/** An inventory with its connections, which end with its disposal. */
export interface OpenInventory extends AsyncDisposable {
  readonly source: InventorySource;
}

/** Starts the inventory and says so in the log, once it knows what there is. @throws when that cannot be learned */
export function startInventory(config: InventoryConfig, options: InventoryOptions): Promise<OpenInventory> {
  return config.kind === "mesh" ? fromMesh(config, options) : fromCluster(config.staleAfterMs, options);
}

async function fromMesh(
  { seeds, pollIntervalMs }: Pick<MeshFlags, "seeds" | "pollIntervalMs">,
  { token, ca, signal, logger }: InventoryOptions,
): Promise<OpenInventory> {
  const pool = createNodePool({ ca });
  const starting = MeshInventory.start({ seeds, pool, token, pollIntervalMs, signal, logger });
  const source = await closingAfter(pool, starting);
  const nodes = source.listNodes();
  const poll = formatDuration(pollIntervalMs);
  logger.info(
    { func: "main.run", seeds, nodes, poll },
    `mesh inventory up seeds=[${seeds.join(" ")}] nodes=[${nodes.join(" ")}] poll=${poll}`,
  );
  return { source, [Symbol.asyncDispose]: () => pool.destroy() };
}

async function fromCluster(
  staleAfterMs: number,
  { signal, logger, env, home }: InventoryOptions,
): Promise<OpenInventory> {
  const cluster = await loadClusterConfig({ env, home });
  const client = await KubeClient.connect(cluster, { userAgent: "envd-proxy", logger });
  const source = await closingAfter(client, KubeInventory.start({ client, signal, staleAfterMs, logger }));
  const nodes = source.listNodes();
  const staleAfter = formatDuration(staleAfterMs);
  logger.info(
    { func: "main.run", cluster: cluster.source, nodes, staleAfter },
    `kube inventory up nodes=[${nodes.join(" ")}] staleAfter=${staleAfter}`,
  );
  return { source, [Symbol.asyncDispose]: () => client.close() };
}

/** What is opened for a start that fails is closed. */
async function closingAfter<T>(connections: AsyncDisposable, starting: Promise<T>): Promise<T> {
  try {
    return await starting;
  } catch (error) {
    await connections[Symbol.asyncDispose]();
    throw error;
  }
}
