import type { KubeClient } from "@org/kubeinventory/client";
import { ClientTrust, createAuthenticator, createAuthorizer, ExtensionAuthentication } from "@org/sandbox-apiserver";
import type { Authenticator, Authorizer } from "@org/sandbox-apiserver";
import type { Logger } from "@org/scale";
import type { AuthConfig } from "./auth-flags.ts";
import { connectReviewer } from "./clusters.ts";
import type { ClusterPlaces } from "./clusters.ts";

/** Who decides about requests. Its connections end with its disposal. */
export interface Security extends AsyncDisposable {
  readonly authenticator: Authenticator;
  readonly authorizer: Authorizer;
  readonly trust: ClientTrust;
}

/** Companions of {@link openSecurity}. */
export interface SecurityOptions {
  readonly places: ClusterPlaces;
  /** Ends what follows files and the cluster. */
  readonly signal: AbortSignal;
  readonly logger: Logger;
}

/**
 * Reads whom to believe, from files and from the cluster.
 * @throws when a file, a kubeconfig or the cluster's ConfigMap cannot be read
 */
export async function openSecurity(config: AuthConfig, options: SecurityOptions): Promise<Security> {
  const { places, logger } = options;
  const reviewer = await connectReviewer(config.authenticationKubeconfig, places, logger);
  let judge: KubeClient | undefined;
  const close = async (): Promise<void> => {
    await Promise.all([reviewer?.close(), judge?.close()]);
  };
  try {
    judge = await connectReviewer(config.authorizationKubeconfig, places, logger);
    if (reviewer === undefined) {
      logger.warn(
        { func: "main.run" },
        "no cluster reviews tokens, every one is refused: set --authentication-kubeconfig, or run in a pod",
      );
    }
    if (judge === undefined) {
      logger.warn(
        { func: "main.run" },
        "no cluster reviews access, all but system:masters are refused: set --authorization-kubeconfig, or run in a pod",
      );
    }
    const trust = await openTrust(config, reviewer, options);
    return {
      trust,
      authenticator: createAuthenticator({ trust, client: reviewer, tokenTtlMs: config.tokenTtlMs, logger }),
      authorizer: createAuthorizer({
        client: judge,
        alwaysAllowPaths: config.alwaysAllowPaths,
        allowedTtlMs: config.allowedTtlMs,
        deniedTtlMs: config.deniedTtlMs,
        logger,
      }),
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function openTrust(
  config: AuthConfig,
  client: KubeClient | undefined,
  { signal, logger }: SecurityOptions,
): Promise<ClientTrust> {
  const { clientCaFile, requestHeader, skipLookup, tolerateLookupFailure } = config;
  const extension =
    client === undefined || skipLookup
      ? undefined
      : await ExtensionAuthentication.start({ client, tolerateFailure: tolerateLookupFailure, signal, logger });
  return ClientTrust.open({
    clientCaFile: clientCaFile || undefined,
    requestHeader:
      requestHeader.clientCaFile === ""
        ? undefined
        : {
            caFile: requestHeader.clientCaFile,
            allowedNames: requestHeader.allowedNames,
            usernameHeaders: requestHeader.usernameHeaders,
            uidHeaders: requestHeader.uidHeaders,
            groupHeaders: requestHeader.groupHeaders,
            extraHeaderPrefixes: requestHeader.extraHeadersPrefix,
          },
    extension,
    signal,
    logger,
  });
}
