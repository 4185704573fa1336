import { X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import { Agent, ProxyAgent, type Dispatcher } from "undici";
import type { ClusterConfig } from "./cluster-config.ts";
import type { Credentials } from "./credentials.ts";
import { errorText, KubeError } from "./errors.ts";

const CONNECT_TIMEOUT_MS = 10_000;
/** A peer that vanished without a word is noticed by the system's own probes. */
const TCP_PROBE_MS = 30_000;

/** One cluster's connections: one dispatcher for as long as the certificates stay the same. */
export class Connections implements AsyncDisposable {
  readonly #config: ClusterConfig;
  #made: { readonly dispatcher: Dispatcher; readonly by: Credentials } | undefined;
  #closed = false;

  constructor(config: ClusterConfig) {
    this.#config = config;
  }

  /**
   * Connections with these certificates. Those with others end with the requests that use them.
   * @throws KubeError `credentials` for certificates that are none; `unreachable` once closed.
   */
  with(credentials: Credentials): Dispatcher {
    if (this.#closed) {
      throw new KubeError("unreachable", "the client is closed");
    }
    const made = this.#made;
    if (made !== undefined && sameCertificates(made.by, credentials)) {
      return made.dispatcher;
    }
    const dispatcher = this.#make(credentials);
    this.#made = { dispatcher, by: credentials };
    // Requests that still run keep their connections; a failure to end the idle ones is nobody's concern.
    void made?.dispatcher.close().catch(() => undefined);
    return dispatcher;
  }

  /** Ends all connections, also those in use. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await this.#made?.dispatcher.destroy();
  }

  #make({ ca, cert, key }: Credentials): Dispatcher {
    const { source, proxyUrl, tlsServerName, insecure = false } = this.#config;
    try {
      createSecureContext({ ca, cert, key });
      // An authority that cannot be read would be passed over, and every server be a stranger.
      if (ca !== undefined) {
        void new X509Certificate(ca);
      }
    } catch (cause) {
      throw new KubeError("credentials", `${source}: the certificates cannot be used: ${errorText(cause)}`, { cause });
    }
    const tls = {
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined ? {} : { cert, key }),
      ...(tlsServerName === undefined ? {} : { servername: tlsServerName }),
      rejectUnauthorized: !insecure,
      timeout: CONNECT_TIMEOUT_MS,
      keepAlive: true,
      keepAliveInitialDelay: TCP_PROBE_MS,
    };
    // One connection for each watch: with HTTP/2 all of them would hang with one that is dead.
    const common = { allowH2: false, connectTimeout: CONNECT_TIMEOUT_MS };
    return proxyUrl === undefined
      ? new Agent({ ...common, connect: tls })
      : new ProxyAgent({ ...common, uri: proxyUrl, requestTls: tls });
  }
}

function sameCertificates(a: Credentials, b: Credentials): boolean {
  return a.ca === b.ca && a.cert === b.cert && a.key === b.key;
}
