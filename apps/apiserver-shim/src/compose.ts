import { formatDuration } from "@org/command-line";
import { KubeInventory } from "@org/kubeinventory";
import type { ServerVersion } from "@org/sandbox-apiserver";
import { caFrom, createNodePool, tokenFrom } from "@org/sandboxd-client";
import { createStore } from "@org/scale";
import type { Logger } from "@org/scale";
import { createNodeClients } from "@org/scale/sandboxd";
import { runWarmPoolDriver } from "@org/warm-pool-driver";
import { connectCluster, ownNamespace } from "./clusters.ts";
import type { ClusterPlaces } from "./clusters.ts";
import type { ShimConfig } from "./flags.ts";
import { Services } from "./services.ts";
import { serveSurfaces } from "./surfaces.ts";

/** Companions of {@link serve}. */
export interface ServeOptions {
  /** Starts the drain. */
  readonly signal: AbortSignal;
  readonly logger: Logger;
  readonly places: ClusterPlaces;
  readonly version: ServerVersion;
}

/**
 * Serves the aggregated API, and the E2B API if it is on, over the nodes of a cluster, until `signal` aborts. Then the
 * aggregated API drains, and after it the E2B API. Kube specification §6.
 * @throws when a file, the cluster or a listener fails at start, or a listener dies later
 */
export async function serve(config: ShimConfig, { signal, logger, places, version }: ServeOptions): Promise<void> {
  const token = await tokenFrom(config.token, config.tokenFile);
  const ca = await caFrom(config.caFile);
  const e2b = await config.e2b?.load();
  await using client = await connectCluster(places, logger);
  // What drains still needs the inventory.
  await using services = new Services(signal);
  try {
    const { staleAfterMs } = config;
    const inventory = await services.start((starting) =>
      KubeInventory.start({ client, signal: starting, staleAfterMs, logger }),
    );
    const nodes = inventory.listNodes();
    const staleAfter = formatDuration(staleAfterMs);
    logger.info(
      { func: "main.run", cluster: client.config.source, nodes, staleAfter },
      `kube inventory up nodes=[${nodes.join(" ")}] staleAfter=${staleAfter}`,
    );
    // Claims and pools keep separate connections: hung ones must not hold up a claim.
    await using routing = createNodePool({ ca });
    await using driving = createNodePool({ ca });
    const store = createStore(inventory, { clients: createNodeClients({ token, pool: routing }), logger });
    if (config.driver !== undefined) {
      const driver = runWarmPoolDriver({
        client,
        source: inventory,
        nodes: { pool: driving, token },
        namespace: await ownNamespace(places),
        syncIntervalMs: config.driver.syncIntervalMs,
        signal: services.draining,
        logger,
      });
      services.add("warm-pool driver", driver);
    }
    await serveSurfaces({ config, inventory, store, e2b, services, places, version, logger });
    await services.done();
  } catch (error) {
    // A signal during start-up ends the program as it should.
    if (!signal.aborted) throw error;
  }
}
