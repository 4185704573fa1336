import { getRequestListener, RequestError } from "@hono/node-server";
import type { Logger } from "@org/scale";
import { statusAnswer } from "./answer.ts";
import type { ApiServer, ApiServerOptions } from "./api-server.ts";
import { badRequest, internalError } from "./api-status.ts";
import { createApp } from "./app.ts";
import { FilterChain } from "./filter-chain.ts";
import type { Answered } from "./filter-chain.ts";
import { healthEndpoints } from "./health.ts";
import { InFlight } from "./in-flight.ts";
import { negotiatePlain } from "./negotiation.ts";
import { createSandboxReads } from "./reads/index.ts";
import { createRequestMetrics } from "./request-metrics.ts";

const MAX_READS = 400;
const MAX_WRITES = 200;
const REQUEST_TIMEOUT_MS = 60_000;

const silent: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

/**
 * Builds the aggregated API of sandboxes over a store: discovery, OpenAPI, health, reads, watches and verbs behind
 * authentication and authorization. It opens nothing; `listener` fits a server of Node, `serveApi` serves it.
 * @throws TypeError for a version that is no semantic version, and for limits out of range
 */
export function createApiServer(options: ApiServerOptions): ApiServer {
  const { store, authenticator, authorizer, logger = silent, version, serverAddress } = options;
  const now = options.now ?? Date.now;
  const inFlight = new InFlight({
    reads: positive(options.maxInFlight?.reads ?? MAX_READS, "maxInFlight.reads"),
    writes: positive(options.maxInFlight?.writes ?? MAX_WRITES, "maxInFlight.writes"),
  });
  const requestTimeoutMs = positive(options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS, "requestTimeoutMs");
  const reads = createSandboxReads({ store, logger, clock: now });
  let shuttingDown = false;
  const health = healthEndpoints({ synced: options.ready ?? (() => true), shuttingDown: () => shuttingDown });
  const metrics = createRequestMetrics(inFlight);
  const onAnswer = (answered: Answered): void => metrics.count(answered);
  const chain = new FilterChain({ authenticator, authorizer, inFlight, logger, requestTimeoutMs, onAnswer });
  const verbs = { store, reads, now, sandboxUnique: options.sandboxUnique ?? false, claiming: new Set<string>() };
  const app = createApp({ chain, verbs, health, version, serverAddress, metrics: metrics.handler });
  const listener = getRequestListener(app.fetch, {
    overrideGlobalObjects: false,
    errorHandler: (error) => {
      const malformed = error instanceof RequestError;
      logger[malformed ? "debug" : "error"]({ err: error }, "request failed");
      return statusAnswer(
        malformed ? badRequest(error.message) : internalError("the request could not be answered"),
        negotiatePlain(undefined),
      );
    },
  });
  return {
    app,
    listener,
    shutdown: () => {
      shuttingDown = true;
    },
    close: () => {
      shuttingDown = true;
      reads.close();
    },
  };
}

function positive(value: number, name: string): number {
  if (!Number.isSafeInteger(value) || value <= 0) {
    throw new TypeError(`${name} must be a positive whole number`);
  }
  return value;
}
