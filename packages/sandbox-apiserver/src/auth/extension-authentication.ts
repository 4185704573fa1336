import { KubeError, Reflector, type KubeClient, type Timing } from "@org/kubeinventory/client";
import type { Logger } from "@org/scale";
import { ApiServerError } from "../api-server-error.ts";
import {
  EXTENSION_AUTHENTICATION,
  readClusterAuthentication,
  type CertificateTrust,
} from "./cluster-authentication.ts";

/** Options of {@link ExtensionAuthentication.start}. */
export interface ExtensionAuthenticationOptions {
  readonly client: Pick<KubeClient, "request" | "stream">;
  /** Whether to start without it when it cannot be read; it is taken up once it can. @default false */
  readonly tolerateFailure?: boolean | undefined;
  /** Ends the watch. What was learned stays. */
  readonly signal: AbortSignal;
  /** @default silent */
  readonly logger?: Logger | undefined;
  /** For tests. @default real time */
  readonly timing?: Timing | undefined;
}

const { namespace, name } = EXTENSION_AUTHENTICATION;
const LOOKUP_TIMEOUT_MS = 10_000;

/**
 * What the cluster tells extension API servers about its clients: the ConfigMap
 * `kube-system/extension-apiserver-authentication`, read at the start and followed from then on. Kube specification §4.2.
 */
export class ExtensionAuthentication {
  readonly #logger: Logger | undefined;
  readonly #listeners = new Set<() => void>();
  #current: CertificateTrust = { clientCa: undefined, requestHeader: undefined };

  private constructor(logger: Logger | undefined) {
    this.#logger = logger;
  }

  /**
   * Reads the ConfigMap and follows it until the signal fires.
   * @throws ApiServerError `authentication_lookup` when it cannot be read or used and that is not tolerated; the
   * signal's reason when it fires before.
   */
  static async start(options: ExtensionAuthenticationOptions): Promise<ExtensionAuthentication> {
    const { client, tolerateFailure = false, signal, logger, timing } = options;
    signal.throwIfAborted();
    const found = new ExtensionAuthentication(logger);
    try {
      const path = `/api/v1/namespaces/${namespace}/configmaps/${name}`;
      const patience = AbortSignal.any([signal, AbortSignal.timeout(LOOKUP_TIMEOUT_MS)]);
      found.#current = readClusterAuthentication(await client.request({ path, signal: patience }));
    } catch (cause) {
      signal.throwIfAborted();
      if (!tolerateFailure) {
        throw lookupError(cause);
      }
      logger?.warn({ err: cause }, "no ConfigMap tells how clients authenticate; going on without it");
    }
    const reflector = new Reflector({
      client,
      resource: { group: "", version: "v1", plural: "configmaps", namespace },
      fieldSelector: `metadata.name=${name}`,
      onChanges: ({ changed, removed }) => {
        const object = changed.find(({ metadata }) => metadata.name === name);
        if (object !== undefined) {
          found.#take(object);
        } else if (removed.length > 0) {
          logger?.warn({ namespace, name }, "the ConfigMap of client authentication is gone; what it said still holds");
        }
      },
      logger,
      ...(timing !== undefined && { timing }),
    });
    void reflector.run(signal);
    return found;
  }

  /** What holds now. Another object after each change. */
  get current(): CertificateTrust {
    return this.#current;
  }

  /** Calls back after each change. Returns what ends that. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  #take(object: unknown): void {
    let next: CertificateTrust;
    try {
      next = readClusterAuthentication(object, this.#current);
    } catch (err) {
      this.#logger?.error(
        { err, namespace, name },
        "client authentication of the cluster cannot be used; the one before still holds",
      );
      return;
    }
    if (JSON.stringify(comparable(next)) === JSON.stringify(comparable(this.#current))) {
      return;
    }
    this.#current = next;
    this.#logger?.info({ namespace, name }, "client authentication of the cluster changed");
    for (const listener of this.#listeners) {
      listener();
    }
  }
}

function comparable({ clientCa, requestHeader }: CertificateTrust): object {
  return {
    clientCa: clientCa?.pem,
    requestHeader: requestHeader && { ...requestHeader, authorities: requestHeader.authorities.pem },
  };
}

function lookupError(cause: unknown): ApiServerError {
  const words = cause instanceof Error ? cause.message : String(cause);
  const hint =
    cause instanceof KubeError && cause.status === 403
      ? `; it takes a RoleBinding in ${namespace} to the Role extension-apiserver-authentication-reader`
      : "";
  return new ApiServerError(
    "authentication_lookup",
    `read ConfigMap ${namespace}/${name}, which tells how clients authenticate: ${words}${hint}`,
    { cause },
  );
}
