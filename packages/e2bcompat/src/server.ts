import type { Hono } from "hono";
import type { SandboxStore } from "@org/scale";
import { createAbandoned } from "./abandoned.ts";
import { createApp } from "./app.ts";
import { CreateLimits } from "./create-limits.ts";
import { createBuilds } from "./builds/build-registry.ts";
import { createGuestLogs } from "./guest-logs.ts";
import { createGuestMetrics } from "./guest-metrics.ts";
import { KeyedSandboxes } from "./keyed-sandboxes.ts";
import { KnownEnds } from "./known-ends.ts";
import { Once } from "./once.ts";
import { resolveOptions } from "./options.ts";
import type { ServerOptions } from "./options.ts";
import { rfc3339 } from "./present.ts";
import { SandboxGate } from "./sandbox-gate.ts";
import { createSandboxNames } from "./sandbox-name.ts";
import { serveHttp } from "./serve.ts";
import type { ServeOptions } from "./serve.ts";
import { SharedWakes } from "./shared-wakes.ts";
import { createSnapshots } from "./snapshots.ts";
import { createTemplateCatalog } from "./template-catalog.ts";
import { createTemplateWrites } from "./template-writes.ts";

/** The API, ready to be mounted or served. */
export interface E2bServer {
  /**
   * The routes, for `route()` in another Hono application. Its last route answers every other path of the mount with a
   * JSON 404, so register routes of your own that share the mount before it.
   */
  readonly app: Hono;
  /** Answers one request: for `mount()`, for `getRequestListener`, and for every other runtime with `fetch`. */
  readonly fetch: (request: Request, env?: object) => Response | Promise<Response>;
  /**
   * Serves on `host:port` until the signal aborts, then lets requests in flight finish and resolves. Rejects with
   * `listen_failed`. May be called for several addresses.
   */
  readonly serve: (address: string, options: ServeOptions) => Promise<void>;
  /**
   * Ends template builds that run, and resolves when their sandboxes and those that nobody collected were released. To be
   * called when the server is done with; `serve` does so by itself.
   */
  readonly settled: () => Promise<void>;
}

/**
 * Builds the API over a store. Does no I/O. Throws `invalid_options` for options that cannot work: a blank domain, no
 * keys without `allowAnonymous`, a version that clients refuse, an alias listed twice.
 */
export function createServer(store: SandboxStore, options: ServerOptions): E2bServer {
  const settings = resolveOptions(options);
  const { logger, drainTimeoutMs, bodyIdleTimeoutMs, namespace, authenticated } = settings;
  const abandoned = createAbandoned(store, logger);
  const templateWrites = createTemplateWrites(settings.inventory);
  const newName = createSandboxNames();
  const abandon = (node: string, id: string): Promise<void> => abandoned.release(node, id);
  const site = { store, templateWrites, settings, newName, abandon };
  const builds = settings.builds === undefined ? undefined : createBuilds({ service: site, ...settings.builds });
  const limits = new CreateLimits({
    accesses: settings.keys.accesses,
    count: (of) => store.count(of),
    monotonicMs: () => performance.now(),
  });
  const app = createApp({
    settings,
    store,
    templates: createTemplateCatalog(settings.inventory, templateWrites),
    templateWrites,
    since: rfc3339(settings.now()),
    guestLogs: createGuestLogs(settings, store),
    guestMetrics: createGuestMetrics(settings, store),
    snapshots: createSnapshots(settings, store),
    limits,
    once: new Once({ monotonicMs: () => performance.now() }),
    keyed: new KeyedSandboxes(settings.inventory),
    ends: new KnownEnds({ inventory: settings.inventory, now: settings.now }),
    gate: new SandboxGate(),
    wakes: new SharedWakes(store),
    builds,
    uploads: settings.builds?.uploads,
    newName,
    abandon,
  });
  const fetch = (request: Request, env?: object): Response | Promise<Response> => app.fetch(request, env);
  const settled = async (): Promise<void> => {
    await builds?.end();
    await store.settled();
    await abandoned.settled();
  };
  return {
    app,
    fetch,
    settled,
    serve: (address, serveOptions) =>
      serveHttp(
        { fetch, logger, drainTimeoutMs, bodyIdleTimeoutMs, describe: { namespace, authenticated }, settled },
        address,
        serveOptions,
      ),
  };
}
