import type { InventorySource, Logger } from "@org/scale";
import type { Registry } from "prom-client";
import { checkNamespace, createKeyRing } from "./api-keys.ts";
import type { ApiKey, KeyRing } from "./api-keys.ts";
import { resolveBuildOptions } from "./builds/build-options.ts";
import type { BuildOptions, BuildSettings } from "./builds/build-options.ts";
import { createCors } from "./cors.ts";
import type { Cors, CorsOrigins } from "./cors.ts";
import { checkEnvdVersion } from "./envd-version.ts";
import { E2bError } from "./errors.ts";
import { NO_METRICS, requestMetrics } from "./metrics.ts";
import type { RequestMetrics } from "./metrics.ts";
import { createAliasTable } from "./template-aliases.ts";
import type { AliasTable, TemplateAlias } from "./template-aliases.ts";

/** What a server is made of besides the store. */
export interface ServerOptions {
  /** Which templates the fleet advertises. */
  readonly inventory: InventorySource;
  /** `domain` of replies: clients reach a guest port at `<port>-<sandboxID>.<domain>`. May carry a port. */
  readonly domain: string;
  /** Accepted API keys. At least one, unless `allowAnonymous` is set. */
  readonly keys?: readonly ApiKey[] | undefined;
  /** Serve everybody in `namespace` when there are no keys. With keys it has no effect. @default false */
  readonly allowAnonymous?: boolean | undefined;
  /** Namespace of anonymous requests. @default "default" */
  readonly namespace?: string | undefined;
  /** The daemon version that clients are told: it switches their features on. @default "0.8.0" */
  readonly envdVersion?: string | undefined;
  /** Lease of a sandbox whose creator names none, and of a refresh. @default 300 */
  readonly defaultTimeoutSeconds?: number | undefined;
  readonly aliases?: readonly TemplateAlias[] | undefined;
  /**
   * Derives access tokens from claim tokens and prepares each guest, which environment variables need. Without it the
   * claim token is the access token. A secret.
   */
  readonly envdSecret?: string | undefined;
  /** Serve template builds, which needs `envdSecret`. @default off */
  readonly builds?: BuildOptions | undefined;
  /**
   * Pages of which origins may use the API with a key. In anonymous use every page could: there it is off unless origins
   * are listed.
   * @default "*"
   */
  readonly corsOrigins?: CorsOrigins | undefined;
  /** @default silent */
  readonly logger?: Logger | undefined;
  /** How long `serve` lets requests in flight finish, in milliseconds. @default 10000 */
  readonly drainTimeoutMs?: number | undefined;
  /** How long a client of `serve` may stop in the middle of a request body, in milliseconds. @default 60000 */
  readonly bodyIdleTimeoutMs?: number | undefined;
  /** A registry of prom-client in which the requests are counted; one server each. @default none */
  readonly registry?: Registry | undefined;
  /** The wall clock, in milliseconds. @default Date.now */
  readonly now?: (() => number) | undefined;
}

/** {@link ServerOptions}, checked and completed once. */
export interface Settings {
  readonly inventory: InventorySource;
  readonly domain: string;
  readonly namespace: string;
  /** Whether keys are asked for. */
  readonly authenticated: boolean;
  readonly keys: KeyRing;
  readonly envdVersion: string;
  readonly defaultTimeoutSeconds: number;
  readonly aliases: AliasTable;
  readonly envdSecret: string | undefined;
  readonly builds: BuildSettings | undefined;
  readonly cors: Cors;
  readonly logger: Logger;
  readonly drainTimeoutMs: number;
  readonly bodyIdleTimeoutMs: number;
  readonly metrics: RequestMetrics;
  readonly now: () => number;
}

/** Name of the flag behind {@link ServerOptions.envdSecret}, for messages. */
export const ENVD_SECRET_FLAG = "--e2b-envd-secret-file";

export const DEFAULT_NAMESPACE = "default";
export const DEFAULT_ENVD_VERSION = "0.8.0";
export const DEFAULT_TIMEOUT_SECONDS = 300;

const ignore = (): void => undefined;
const SILENT: Logger = { debug: ignore, info: ignore, warn: ignore, error: ignore };

/** Throws `invalid_options` unless `domain` can stand behind `<port>-<sandboxID>.`. */
export function checkDomain(domain: string): void {
  if (domain.trim() === "") {
    throw new E2bError("invalid_options", "a domain is required: set --e2b-domain");
  }
  if (!/^[A-Za-z0-9._-]+(?::\d{1,5})?$/.test(domain)) {
    throw new E2bError("invalid_options", `domain ${JSON.stringify(domain)} is not a host name`);
  }
}

/** Checks and completes options. Throws {@link E2bError} with code `invalid_options`. */
export function resolveOptions(options: ServerOptions): Settings {
  const {
    keys = [],
    allowAnonymous = false,
    namespace = DEFAULT_NAMESPACE,
    envdVersion = DEFAULT_ENVD_VERSION,
    defaultTimeoutSeconds = DEFAULT_TIMEOUT_SECONDS,
    corsOrigins = "*",
    drainTimeoutMs = 10_000,
    bodyIdleTimeoutMs = 60_000,
  } = options;
  checkDomain(options.domain);
  checkNamespace(namespace, "namespace");
  checkEnvdVersion(envdVersion);
  if (keys.length === 0 && !allowAnonymous) {
    throw new E2bError("invalid_options", "no API key is configured: set --e2b-api-key-file or --e2b-allow-anonymous");
  }
  if (!Number.isInteger(defaultTimeoutSeconds) || defaultTimeoutSeconds < 1 || defaultTimeoutSeconds > 2_147_483_647) {
    throw new E2bError("invalid_options", "the default timeout is a positive number of whole seconds");
  }
  if (options.envdSecret?.trim() === "") {
    throw new E2bError("invalid_options", "the envd secret is blank");
  }
  if (options.builds !== undefined && options.envdSecret === undefined) {
    throw new E2bError("invalid_options", `template builds need a secret: set ${ENVD_SECRET_FLAG}`);
  }
  return {
    inventory: options.inventory,
    domain: options.domain,
    namespace,
    authenticated: keys.length > 0,
    keys: createKeyRing(keys, allowAnonymous ? namespace : undefined),
    envdVersion,
    defaultTimeoutSeconds,
    aliases: createAliasTable(options.aliases ?? []),
    envdSecret: options.envdSecret,
    builds: options.builds === undefined ? undefined : resolveBuildOptions(options.builds),
    cors: createCors(corsOrigins === "*" && keys.length === 0 ? "none" : corsOrigins),
    logger: options.logger ?? SILENT,
    drainTimeoutMs,
    bodyIdleTimeoutMs,
    metrics: options.registry === undefined ? NO_METRICS : requestMetrics(options.registry),
    now: options.now ?? Date.now,
  };
}
