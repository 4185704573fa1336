import { bindListener, createProxy, loadEnvdSecret } from "@org/envdproxy";
import type { Flags as ProxyFlags } from "@org/envdproxy";
import { caFrom, createNodePool, tokenFrom } from "@org/sandboxd-client";
import { createStore } from "@org/scale";
import { createNodeClients } from "@org/scale/sandboxd";
import { startInventory } from "./inventory.ts";
import type { InventoryConfig, InventoryOptions } from "./inventory.ts";

/** Everything the program is configured with. */
export interface ProxyConfig {
  readonly inventory: InventoryConfig;
  /** A secret. */
  readonly token: string;
  readonly tokenFile: string;
  readonly caFile: string;
  readonly domain: string;
  readonly namespace: string;
  readonly envdSecretFile: string;
  readonly proxy: ProxyFlags;
}

/** Companions of {@link serve}; the signal starts the drain. */
export type ServeOptions = Pick<InventoryOptions, "signal" | "logger" | "env" | "home">;

/**
 * Runs the data plane until `signal` aborts, and returns after it has drained.
 * @throws when a file, the inventory or the listener fails
 */
export async function serve(config: ProxyConfig, options: ServeOptions): Promise<void> {
  const { signal, logger } = options;
  const { domain, namespace } = config;
  if (config.inventory.kind === "mesh" && config.inventory.seeds.length === 0) {
    throw new Error(
      "at least one seed is required: set --sandboxd-seeds to a node's address, or --inventory=kube in a cluster",
    );
  }
  if (domain.trim() === "") throw new Error("a domain is required: set --domain");
  const token = await tokenFrom(config.token, config.tokenFile);
  const ca = await caFrom(config.caFile);
  const envdSecret = await loadEnvdSecret(config.envdSecretFile);
  await config.proxy.load();
  // Polls and relays keep separate connections: a burst of polls, or hung ones, must not hold up a request.
  await using routing = createNodePool({ ca });
  await using listener = await bindListener(config.proxy.bindAddress);
  try {
    await using inventory = await startInventory(config.inventory, { ...options, token, ca });
    const { source } = inventory;
    const store = createStore(source, { clients: createNodeClients({ token, pool: routing }), logger });
    const ready = (): boolean => source.listNodes().length > 0;
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
