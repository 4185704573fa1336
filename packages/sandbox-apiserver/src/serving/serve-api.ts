import type { AddressInfo, Socket } from "node:net";
import { createServer as createTlsServer, type TLSSocket } from "node:tls";
import type { Logger } from "@org/scale";
import type { ApiServer } from "../api-server.ts";
import { ApiServerError } from "../api-server-error.ts";
import type { ClientTrust } from "../auth/client-trust.ts";
import { http1Server } from "./http1-server.ts";
import { http2Server } from "./http2-server.ts";
import { LINGER_MS, MAX_STREAMS, SERVING_TIMES } from "./limits.ts";
import { OpenConnections } from "./open-connections.ts";
import { selfSignedPair, type CertificateFiles } from "./self-signed-pair.ts";
import { ServingContexts, type NamedCertificate } from "./serving-contexts.ts";
import { contextSettings, type TlsSettings } from "./tls-settings.ts";

/** Options of {@link serveApi}. Durations are milliseconds. */
export interface ServeApiOptions {
  /** @default "0.0.0.0" */
  readonly address?: string | undefined;
  /** 0 takes any that is free. */
  readonly port: number;
  /** Whether other processes may listen there as well. @default false */
  readonly reusePort?: boolean | undefined;
  /** The serving certificate; or the folder in which a self-signed one is kept. Read again when it changes. */
  readonly certificate: CertificateFiles | { readonly folder: string };
  /** Certificates for certain names. @default none */
  readonly namedCertificates?: readonly NamedCertificate[] | undefined;
  readonly tls?: TlsSettings | undefined;
  /** Asks clients for certificates by these authorities. Whether one holds is judged by the authenticator. @default none */
  readonly trust?: Pick<ClientTrust, "authorities" | "onChange"> | undefined;
  /** Whether HTTP/2 is spoken beside HTTP/1.1. @default true */
  readonly http2?: boolean | undefined;
  /** Streams of one HTTP/2 connection at once; 0 is the default. @default 250 */
  readonly maxStreamsPerConnection?: number | undefined;
  /** How often certificate files are read again. @default 10000 */
  readonly intervalMs?: number | undefined;
  /** How long requests may take to finish once the end began. @default 60000 */
  readonly drainTimeoutMs?: number | undefined;
  /** Begins the end. */
  readonly signal: AbortSignal;
  /** Called once, with the bound address. */
  readonly onListening?: ((address: AddressInfo) => void) | undefined;
  /** @default silent */
  readonly logger?: Logger | undefined;
}

const DRAIN_TIMEOUT_MS = 60_000;
/** Watches are over after this time, and new clients have seen that the server is not ready. */
const WATCHES_END_MS = 2000;

/**
 * Serves over HTTPS until the signal fires, and resolves when everything is over: `readyz` fails, watches end within two
 * seconds, then nobody is let in any more and requests in flight finish within `drainTimeoutMs`. What is left is cut.
 * @throws ApiServerError `listen_failed`, `certificates` or `invalid_options` before it serves.
 */
export async function serveApi(
  api: Pick<ApiServer, "listener" | "shutdown" | "close">,
  options: ServeApiOptions,
): Promise<void> {
  const { address = "0.0.0.0", trust, http2: speaksHttp2 = true, signal, logger } = options;
  if (signal.aborted) {
    return;
  }
  // Files are followed until the very end, which is later than the signal.
  const life = new AbortController();
  try {
    const contexts = await openContexts(options, address, life.signal);
    const open = new OpenConnections();
    let isEnding = false;
    const { server: http1, announceEnd } = http1Server(api, open, () => isEnding);
    const http2 = http2Server(api, open, maxStreams(options.maxStreamsPerConnection));
    const server = createTlsServer({
      ...contexts.options,
      requestCert: trust !== undefined,
      // Whose certificate it is, and for what it counts, is judged for each request by the authorities it needs.
      rejectUnauthorized: false,
      ALPNProtocols: speaksHttp2 ? ["h2", "http/1.1"] : ["http/1.1"],
      handshakeTimeout: SERVING_TIMES.headMs,
      SNICallback: (name, done) => done(null, contexts.named(name)),
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: 30_000,
    });
    contexts.follow((next) => server.setSecureContext(next));
    const forget = trust?.onChange(() => {
      try {
        contexts.refresh();
      } catch (err) {
        logger?.error({ err }, "clients are told of the authorities before");
      }
    });
    server.on("connection", (socket: Socket) => {
      // A client may reset at any time, also in the middle of a handshake.
      socket.on("error", () => undefined);
      open.addSocket(socket);
    });
    server.on("tlsClientError", (_error: Error, socket: TLSSocket) => socket.destroy());
    server.on("secureConnection", (socket: TLSSocket) => {
      socket.on("error", () => undefined);
      (socket.alpnProtocol === "h2" ? http2 : http1).emit("connection", socket);
    });

    const bound = await listen(server, { host: address, port: options.port, reusePort: options.reusePort ?? false });
    // Running out of descriptors must not end the process.
    server.on("error", (err) => logger?.error({ err }, "the API could not accept a connection"));
    logger?.info({ address: bound.address, port: bound.port, http2: speaksHttp2 }, "serving the aggregated API");
    options.onListening?.(bound);

    await untilAborted(signal);
    isEnding = true;
    announceEnd();
    api.shutdown();
    api.close();
    await open.until(() => open.running === 0, WATCHES_END_MS);
    server.close();
    for (const session of open.sessions) {
      session.close();
    }
    http1.closeIdleConnections();
    const drained = await open.until(() => open.running === 0, options.drainTimeoutMs ?? DRAIN_TIMEOUT_MS);
    if (!drained) {
      logger?.error({ running: open.running }, "requests were cut at the end of the API");
    }
    http1.closeIdleConnections();
    // Last bytes are on their way.
    await open.until(() => open.sockets.size === 0, drained ? LINGER_MS : 0);
    for (const session of open.sessions) {
      session.destroy();
    }
    for (const socket of open.sockets) {
      socket.destroy();
    }
    await open.until(() => open.sockets.size === 0, LINGER_MS);
    http1.close();
    http2.close();
    forget?.();
  } finally {
    life.abort();
  }
}

async function openContexts(options: ServeApiOptions, address: string, signal: AbortSignal): Promise<ServingContexts> {
  const { certificate, namedCertificates: named = [], tls = {}, trust, intervalMs, logger } = options;
  let files: CertificateFiles;
  if ("folder" in certificate) {
    const { isNew, ...made } = await selfSignedPair(certificate.folder, address, Date.now);
    files = made;
    if (isNew) {
      logger?.warn({ certFile: made.certFile }, "made a self-signed serving certificate");
    }
  } else {
    files = certificate;
  }
  const settings = contextSettings(tls);
  const authorities = (): string => trust?.authorities ?? "";
  return ServingContexts.open({ files, named, settings, authorities, intervalMs, signal, logger });
}

function maxStreams(asked = 0): number {
  if (!Number.isSafeInteger(asked) || asked < 0 || asked > 2 ** 31 - 1) {
    throw new ApiServerError("invalid_options", "the number of streams of a connection must be a positive integer");
  }
  return asked === 0 ? MAX_STREAMS : asked;
}

async function listen(
  server: ReturnType<typeof createTlsServer>,
  where: { readonly host: string; readonly port: number; readonly reusePort: boolean },
): Promise<AddressInfo> {
  const subject = `listen on ${where.host}, port ${where.port}`;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  try {
    server.once("error", reject);
    server.listen(where, resolve);
    await promise;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ApiServerError("listen_failed", `${subject}: ${reason}`, { cause });
  } finally {
    server.off("error", reject);
  }
  const bound = server.address();
  if (bound === null || typeof bound === "string") {
    throw new ApiServerError("listen_failed", `${subject}: no TCP address`);
  }
  return bound;
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve();
    } else {
      signal.addEventListener("abort", () => resolve(), { once: true });
    }
  });
}
