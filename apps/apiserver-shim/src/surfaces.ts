import { createServer } from "@org/e2bcompat";
import type { LoadedFlags } from "@org/e2bcompat";
import type { KubeInventory } from "@org/kubeinventory";
import { createApiServer, serveApi } from "@org/sandbox-apiserver";
import type { ServerVersion } from "@org/sandbox-apiserver";
import type { Logger, SandboxStore } from "@org/scale";
import type { ClusterPlaces } from "./clusters.ts";
import type { ShimConfig } from "./flags.ts";
import { openSecurity } from "./security.ts";
import type { ServingConfig } from "./serving-flags.ts";
import type { Services } from "./services.ts";

/** What both surfaces serve, and the E2B API's files if it is on. */
export interface SurfaceParts {
  readonly config: ShimConfig;
  readonly inventory: KubeInventory;
  readonly store: SandboxStore;
  readonly e2b: LoadedFlags | undefined;
  readonly services: Services;
  readonly places: ClusterPlaces;
  readonly version: ServerVersion;
  readonly logger: Logger;
}

/**
 * Serves the E2B API, then the aggregated API; resolves once both are up. The E2B API drains after the other, which may
 * still make sandboxes that its clients ask for.
 * @throws when one of them cannot be served
 */
export async function serveSurfaces(parts: SurfaceParts): Promise<void> {
  const { config, services } = parts;
  const aggregated = Promise.withResolvers<void>();
  if (parts.e2b !== undefined) await serveE2b(parts, parts.e2b, aggregated.promise);
  if (config.serving.port === 0) {
    services.draining.addEventListener("abort", () => aggregated.resolve(), { once: true });
    if (services.draining.aborted) aggregated.resolve();
    return;
  }
  const up = Promise.withResolvers<void>();
  const ended = serveAggregated(parts, up.resolve).finally(() => aggregated.resolve());
  services.add("aggregated API", ended);
  await Promise.race([up.promise, ended]);
}

/** @param last drains the API when it resolves */
async function serveE2b(parts: SurfaceParts, e2b: LoadedFlags, last: Promise<void>): Promise<void> {
  const { inventory, store, services, logger } = parts;
  const stop = new AbortController();
  void last.then(() => stop.abort());
  const up = Promise.withResolvers<void>();
  const server = createServer(store, { ...e2b.serverOptions(inventory), logger });
  const ended = server.serve(e2b.bindAddress, { signal: stop.signal, onListening: () => up.resolve() });
  services.add("E2B API", ended);
  await Promise.race([up.promise, ended]);
}

async function serveAggregated(parts: SurfaceParts, onListening: () => void): Promise<void> {
  const { config, inventory, store, services, places, version, logger } = parts;
  const { draining } = services;
  await using security = await openSecurity(config.auth, { places, signal: services.life, logger });
  const { authenticator, authorizer, trust } = security;
  const api = createApiServer({
    store,
    authenticator,
    authorizer,
    version,
    ready: () => inventory.status.hasSynced,
    sandboxUnique: config.uniqueNames,
    logger,
  });
  await serveApi(api, { ...servingOptionsOf(config.serving), trust, signal: draining, onListening, logger });
}

function servingOptionsOf(serving: ServingConfig): Omit<Parameters<typeof serveApi>[1], "signal"> {
  const { address, port, certDir, certFile, keyFile, named, minVersion, cipherSuites, curves } = serving;
  return {
    address,
    port,
    certificate: certFile === "" ? { folder: certDir } : { certFile, keyFile },
    namedCertificates: named.map(({ names, ...files }) => (names.length === 0 ? files : { ...files, names })),
    tls: { minVersion, cipherSuites, curves },
    http2: serving.http2,
    maxStreamsPerConnection: serving.http2MaxStreams,
    reusePort: serving.reusePort,
  };
}
