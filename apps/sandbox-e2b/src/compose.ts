import type { AddressInfo } from "node:net";
import { formatDuration } from "@org/command-line";
import type { MeshFlags } from "@org/command-line";
import { createConsole } from "@org/console";
import type { Flags as ConsoleFlags } from "@org/console";
import { createServer } from "@org/e2bcompat";
import type { Flags as E2bFlags, LoadedFlags } from "@org/e2bcompat";
import { bindListener, createProxy } from "@org/envdproxy";
import type { Flags as ProxyFlags, Listener } from "@org/envdproxy";
import { MeshInventory } from "@org/meshinventory";
import { formatAddress } from "@org/sandbox-address";
import { caFrom, createNodePool, tokenFrom } from "@org/sandboxd-client";
import { createStore } from "@org/scale";
import type { Logger } from "@org/scale";
import { createNodeClients } from "@org/scale/sandboxd";
import { Registry } from "prom-client";

/** Everything the service is configured with. */
export interface ServiceConfig extends MeshFlags {
  readonly e2b: E2bFlags;
  readonly proxy: ProxyFlags;
  readonly console: ConsoleFlags;
}

/** A configuration whose files were read and checked. */
export interface PreparedService {
  readonly config: ServiceConfig;
  readonly token: string;
  /** Certificates that nodes are verified against, instead of the system's. */
  readonly ca: string | undefined;
  readonly e2b: LoadedFlags;
  /** What people log in to the console with; `undefined` without one. A secret. */
  readonly consoleCredential: string | undefined;
}

/** Where the two surfaces are reached, as bound. */
export interface ServingAddresses {
  readonly api: string;
  readonly proxy: string | undefined;
  readonly console: string | undefined;
}

/** Companions of {@link serve}. */
export interface ServeOptions {
  /** Starts the drain. */
  readonly signal: AbortSignal;
  readonly logger: Logger;
  /** A data plane listener that is bound already; otherwise the proxy's flag decides. */
  readonly listener?: Listener | undefined;
  /** Where the API listens: the first of these that is free. Otherwise its flag decides. */
  readonly apiAddresses?: readonly string[] | undefined;
  /** The same of the console. */
  readonly consoleAddresses?: readonly string[] | undefined;
  /** Called once both surfaces answer. A failure ends the service. */
  readonly onServing?: ((at: ServingAddresses) => Promise<void>) | undefined;
}

/** Reads and checks every file of the configuration. Nothing is dialed or bound. */
export async function prepare(config: ServiceConfig): Promise<PreparedService> {
  const token = await tokenFrom(config.token, config.tokenFile);
  const ca = await caFrom(config.caFile);
  const e2b = await config.e2b.load();
  await config.proxy.load();
  const consoleCredential = await config.console.load();
  return { config, token, ca, e2b, consoleCredential };
}

/**
 * Runs control plane and data plane until `signal` aborts, and returns after both have drained. They drain together,
 * each within ten seconds.
 * @throws when the mesh or a listener fails at start, or a listener dies later
 */
export async function serve(prepared: PreparedService, options: ServeOptions): Promise<void> {
  const { config, token, ca, e2b } = prepared;
  const { logger } = options;
  const stop = new AbortController();
  const onSignal = (): void => stop.abort();
  options.signal.addEventListener("abort", onSignal, { once: true });
  if (options.signal.aborted) onSignal();
  // Polls and claims keep separate connections: a burst of polls, or hung ones, must not hold up a claim.
  const polling = createNodePool({ ca });
  const routing = createNodePool({ ca });
  const listener = options.listener ?? (await bindProxy(config.proxy));
  try {
    const { seeds, pollIntervalMs } = config;
    const pool = polling;
    const inventory = await MeshInventory.start({ seeds, pool, token, pollIntervalMs, signal: stop.signal, logger });
    logMeshUp(logger, seeds, inventory.listNodes(), pollIntervalMs);
    const store = createStore(inventory, { clients: createNodeClients({ token, pool: routing }), logger });
    const { proxyOptions } = config.proxy;
    const credential = prepared.consoleCredential;
    const registry = proxyOptions.registry ?? (credential === undefined ? undefined : new Registry());
    const server = createServer(store, { ...e2b.serverOptions(inventory), logger, registry });
    const { domain, envdSecret } = e2b;
    const isReady = (): boolean => inventory.listNodes().length > 0;
    const proxy = createProxy({ store, domain, envdSecret, ready: isReady, logger, ...proxyOptions });
    using page =
      credential === undefined ? undefined : createConsole({ inventory, store, credential, registry, logger });
    const { signal } = stop;
    const apiAt = Promise.withResolvers<string | undefined>();
    const onListening = ({ address, port }: AddressInfo): void => apiAt.resolve(formatAddress(address, port));
    const api = atFirstFree(options.apiAddresses ?? [e2b.bindAddress], (address) =>
      server.serve(address, { signal, onListening }),
    );
    api.then(() => apiAt.resolve(undefined), apiAt.reject);
    const data = apiAt.promise.then((address) =>
      address === undefined || listener === undefined
        ? untilAborted(signal)
        : config.proxy.serve(listener, proxy, { signal }),
    );
    const pageAt = Promise.withResolvers<string | undefined>();
    const watching =
      page === undefined
        ? undefined
        : atFirstFree(options.consoleAddresses ?? [config.console.bindAddress], (address) =>
            page.serve(address, { signal, onListening: pageAt.resolve }),
          );
    (watching ?? Promise.resolve()).then(() => pageAt.resolve(undefined), pageAt.reject);
    const ready = Promise.all([apiAt.promise, pageAt.promise]).then(([at, consoleAt]) =>
      at === undefined ? undefined : options.onServing?.({ api: at, proxy: listener?.address, console: consoleAt }),
    );
    const services = [
      lasting("API", api, signal),
      lasting("data plane", data, signal),
      lasting("console", watching ?? untilAborted(signal), signal),
    ];
    try {
      await Promise.all([...services, ready]);
    } catch (error) {
      stop.abort();
      await Promise.allSettled(services);
      throw error;
    }
  } catch (error) {
    // A signal during start-up ends the program as it should.
    if (!options.signal.aborted) throw error;
  } finally {
    options.signal.removeEventListener("abort", onSignal);
    stop.abort();
    await listener?.close();
    await Promise.all([polling.destroy(), routing.destroy()]);
  }
}

/** A service that ends before it was told to has failed. */
async function lasting(what: string, service: Promise<void>, signal: AbortSignal): Promise<void> {
  await service;
  if (!signal.aborted) throw new Error(`the listener of the ${what} ended by itself`);
}

/** Resolves once `signal` has aborted. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

function bindProxy(flags: ProxyFlags): Promise<Listener | undefined> {
  return flags.bindAddress === "" ? Promise.resolve(undefined) : bindListener(flags.bindAddress);
}

/** Serves at the first of the addresses that nobody else has. */
async function atFirstFree(addresses: readonly string[], listen: (address: string) => Promise<void>): Promise<void> {
  for (const [index, address] of addresses.entries()) {
    try {
      return await listen(address);
    } catch (error) {
      if (index === addresses.length - 1 || !isAddressInUse(error)) throw error;
    }
  }
}

/** Whether listening failed because somebody else has the address. */
export function isAddressInUse(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return ("code" in error && error.code === "EADDRINUSE") || isAddressInUse(error.cause);
}

function logMeshUp(logger: Logger, seeds: readonly string[], nodes: readonly string[], pollMs: number): void {
  const poll = formatDuration(pollMs);
  logger.info(
    { func: "main.run", seeds, nodes, poll },
    `mesh inventory up seeds=[${seeds.join(" ")}] nodes=[${nodes.join(" ")}] poll=${poll}`,
  );
}
