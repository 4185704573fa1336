import { formatDuration } from "@org/command-line";
import type { MeshFlags } from "@org/command-line";
import { bindListener, createProxy, loadEnvdSecret } from "@org/envdproxy";
import type { Flags as ProxyFlags } from "@org/envdproxy";
import { MeshInventory } from "@org/meshinventory";
import { caFrom, createNodePool, tokenFrom } from "@org/sandboxd-client";
import { createStore } from "@org/scale";
import type { Logger } from "@org/scale";
import { createNodeClients } from "@org/scale/sandboxd";

/** Everything the program is configured with. */
export interface ProxyConfig extends MeshFlags {
  readonly domain: string;
  readonly namespace: string;
  readonly envdSecretFile: string;
  readonly proxy: ProxyFlags;
}

/** Companions of {@link serve}. */
export interface ServeOptions {
  /** Starts the drain. */
  readonly signal: AbortSignal;
  readonly logger: Logger;
}

/**
 * Runs the data plane until `signal` aborts, and returns after it has drained.
 * @throws when a file, the mesh or the listener fails
 */
export async function serve(config: ProxyConfig, { signal, logger }: ServeOptions): Promise<void> {
  const { seeds, pollIntervalMs, domain, namespace } = config;
  if (seeds.length === 0) throw new Error("at least one seed is required: set --sandboxd-seeds to a node's address");
  if (domain.trim() === "") throw new Error("a domain is required: set --domain");
  const token = await tokenFrom(config.token, config.tokenFile);
  const ca = await caFrom(config.caFile);
  const envdSecret = await loadEnvdSecret(config.envdSecretFile);
  await config.proxy.load();
  await using polling = createNodePool({ ca });
  await using routing = createNodePool({ ca });
  await using listener = await bindListener(config.proxy.bindAddress);
  try {
    const inventory = await MeshInventory.start({ seeds, pool: polling, token, pollIntervalMs, signal, logger });
    const nodes = inventory.listNodes();
    const poll = formatDuration(pollIntervalMs);
    logger.info(
      { func: "main.run", seeds, nodes, poll },
      `mesh inventory up seeds=[${seeds.join(" ")}] nodes=[${nodes.join(" ")}] poll=${poll}`,
    );
    const store = createStore(inventory, { clients: createNodeClients({ token, pool: routing }), logger });
    const ready = (): boolean => inventory.listNodes().length > 0;
    const { proxyOptions } = config.proxy;
    const proxy = createProxy({ store, domain, namespace, envdSecret, ready, logger, ...proxyOptions });
    await config.proxy.serve(listener, proxy, { signal });
    proxy.close();
  } catch (error) {
    // A signal during start-up ends the program as it should.
    if (!signal.aborted) throw error;
  }
  if (!signal.aborted) throw new Error("the listener ended by itself");
}
