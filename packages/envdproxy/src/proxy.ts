import type { IncomingMessage, ServerResponse } from "node:http";
import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import type { Duplex } from "node:stream";
import { sandboxHost } from "@org/sandbox-address";
import type { Logger } from "@org/scale";
import { answerEmpty, answerError, answerPreflight, isPreflight } from "./answers.ts";
import { EnvdProxyError, refusal, requestErrorCode } from "./errors.ts";
import { forward } from "./exchange.ts";
import type { Outcome } from "./exchange.ts";
import { guestRequestHeaders } from "./forward-headers.ts";
import { requestHttp1 } from "./guest-http1.ts";
import { requestHttp2 } from "./guest-http2.ts";
import type { GuestRequest } from "./guest-leg.ts";
import { Http1Inbound } from "./inbound-http1.ts";
import { Http2Inbound } from "./inbound-http2.ts";
import type { Inbound } from "./inbound.ts";
import { createOwnerResolver } from "./owner-resolver.ts";
import type { ProxiedStore } from "./proxied-store.ts";
import { ENVD_PORT, publicPortTest } from "./public-ports.ts";
import type { PublicPorts } from "./public-ports.ts";
import { count, firstValue } from "./raw-headers.ts";
import type { RawHeaders } from "./raw-headers.ts";
import { createRelayDialer } from "./relay-dialer.ts";
import type { Credential } from "./relay-dialer.ts";
import { isHealthPath, isInternalPath, isSignedFile, parseRoute, parseTarget } from "./route.ts";
import type { Route, Target } from "./route.ts";
import { UpgradeSocket } from "./upgrade.ts";

/** Options of {@link createProxy}. */
export interface ProxyOptions {
  readonly store: ProxiedStore;
  /** Base domain: guests are `{port}-{id}.{domain}`. Must not be blank. */
  readonly domain: string;
  /**
   * Key of derived access tokens. With it, clients present `HMAC(secret, sandbox token)`, guests see that token, and
   * signed file URLs pass. Without it, clients present the sandbox's own token, and guests do not see it.
   */
  readonly envdSecret?: string | undefined;
  /** Serve the sandboxes of this namespace alone; empty serves all. A filter, not an access boundary. @default "" */
  readonly namespace?: string | undefined;
  /** Guest ports that are reachable without a token. Never the guest daemon's. @default "none" */
  readonly publicPorts?: PublicPorts | undefined;
  /** Speak HTTP/2 with prior knowledge to guests instead of HTTP/1.1. Upgrades stay HTTP/1.1. @default false */
  readonly guestHttp2?: boolean | undefined;
  /** @default silent */
  readonly logger?: Logger | undefined;
  /** Level of the line per request: method, path without query, sandbox, port, status, duration. @default "debug" */
  readonly accessLog?: "off" | "debug" | "info" | undefined;
  /** Look-ups of unlisted sandboxes per second; each may ask every node. @default 200 */
  readonly asksPerSecond?: number | undefined;
  /** Look-ups of unlisted sandboxes at once. @default 400 */
  readonly askBurst?: number | undefined;
  /** How long an owner is trusted without being asked again, in milliseconds. @default 60000 */
  readonly keepOwnerMs?: number | undefined;
  /** Milliseconds of a clock that never goes back. @default performance.now */
  readonly now?: (() => number) | undefined;
}

/** The data plane as listeners for Node's servers. No listener throws, and none answers without a body on errors. */
export interface ProxyHandler {
  readonly domain: string;
  readonly logger: Logger | undefined;
  /** For `request` of an HTTP/1.1 server. */
  readonly request: (request: IncomingMessage, response: ServerResponse) => void;
  /** For `checkContinue` of an HTTP/1.1 server: the client is asked for its body once the guest is reached. */
  readonly checkContinue: (request: IncomingMessage, response: ServerResponse) => void;
  /** For `upgrade` of an HTTP/1.1 server. The socket may be half open. */
  readonly upgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => void;
  /** For `stream` of an HTTP/2 server. */
  readonly stream: (
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    flags: number,
    rawHeaders: RawHeaders,
  ) => void;
  /** Lets go of the store. Requests that run are not touched. */
  close(): void;
}

interface Admission {
  readonly target: Target;
  readonly route: Route;
  readonly credential: Credential;
  readonly passive: boolean;
}

function checkedDomain(domain: string): string {
  const name = domain.trim().replace(/\.$/, "");
  if (name === "") {
    throw new EnvdProxyError("invalid_options", "a domain is required");
  }
  return name;
}

function budget(name: string, value: number | undefined): number | undefined {
  if (value !== undefined && !(value >= 0 && Number.isFinite(value))) {
    throw new EnvdProxyError("invalid_options", `${name} must be a number that is not negative`);
  }
  return value;
}

/**
 * Builds the data plane over a store. Does no I/O by itself. Throws `invalid_options` for a blank domain or secret, and
 * when the guest daemon's port is to be public.
 */
export function createProxy(options: ProxyOptions): ProxyHandler {
  const { store, logger, envdSecret, guestHttp2 = false, accessLog = "debug" } = options;
  const domain = checkedDomain(options.domain);
  if (envdSecret !== undefined && envdSecret.trim() === "") {
    throw new EnvdProxyError("invalid_options", "the envd secret must not be empty");
  }
  const derived = envdSecret !== undefined;
  const isPublic = publicPortTest(options.publicPorts ?? "none");
  const now = options.now ?? ((): number => performance.now());
  const asksPerSecond = budget("asksPerSecond", options.asksPerSecond);
  const askBurst = budget("askBurst", options.askBurst);
  const keepMs = budget("keepOwnerMs", options.keepOwnerMs);
  const resolver = createOwnerResolver({
    store,
    secret: envdSecret,
    namespace: options.namespace,
    now,
    ...(asksPerSecond === undefined ? {} : { asksPerSecond }),
    ...(askBurst === undefined ? {} : { askBurst }),
    ...(keepMs === undefined ? {} : { keepMs }),
  });
  const dialer = createRelayDialer({ store, resolver, derived, logger });

  function credentialOf(inbound: Inbound, route: Route, target: Target): Credential {
    if (isPublic(route.port)) {
      return { kind: "public" };
    }
    const token = firstValue(inbound.headers, "x-access-token");
    if (token !== undefined && token !== "") {
      return { kind: "token", token };
    }
    if (derived && route.port === ENVD_PORT && isSignedFile(target)) {
      return { kind: "signed" };
    }
    throw refusal("missing_token");
  }

  /** The checks of a request in their order. Answers those that need no sandbox and returns `undefined`. */
  function admit(inbound: Inbound, outcome: Outcome): Admission | undefined {
    const { method } = inbound;
    if (method === "CONNECT") {
      throw refusal("connect_refused");
    }
    if (inbound.target === "*" && method === "OPTIONS") {
      outcome.status = answerEmpty(inbound);
      return undefined;
    }
    const target = parseTarget(inbound.target);
    if (target === undefined || !inbound.wellFormed || count(inbound.headers, "host") > 1) {
      throw refusal("malformed_request");
    }
    if (target.raw.split("?", 1)[0] === "/healthz" && (method === "GET" || method === "HEAD")) {
      outcome.status = answerEmpty(inbound);
      return undefined;
    }
    const route = parseRoute(inbound.headers, target.authority ?? inbound.authority, domain);
    if (route === undefined) {
      throw refusal("no_sandbox");
    }
    if (isPreflight(inbound)) {
      outcome.status = answerPreflight(inbound);
      return undefined;
    }
    if (isInternalPath(target.path)) {
      throw refusal("internal_path");
    }
    const encoding = firstValue(inbound.headers, "transfer-encoding");
    if (encoding !== undefined && encoding.toLowerCase() !== "chunked") {
      throw refusal("bad_encoding");
    }
    const credential = credentialOf(inbound, route, target);
    // A probe must not wake what it asks about, nor may a signature that nobody has checked yet.
    const probe = route.port === ENVD_PORT && isHealthPath(target.path) && (method === "GET" || method === "HEAD");
    return { target, route, credential, passive: probe || credential.kind === "signed" };
  }

  function record(inbound: Inbound, outcome: Outcome, startedAt: number, route: Route | undefined): void {
    if (logger === undefined || accessLog === "off") {
      return;
    }
    logger[accessLog](
      {
        method: inbound.method,
        path: inbound.target.split(/[?#]/, 1)[0],
        sandbox: route?.id,
        port: route?.port,
        status: outcome.status,
        broken: outcome.broken,
        durationMs: Math.round(now() - startedAt),
      },
      "proxied request",
    );
  }

  function handle(inbound: Inbound, upgrade: UpgradeSocket | undefined): void {
    const startedAt = now();
    const outcome: Outcome = { status: 499, broken: false };
    let route: Route | undefined;
    inbound.onClose(() => record(inbound, outcome, startedAt, route));
    upgrade?.onSwitched(() => record(inbound, outcome, startedAt, route));

    function refuse(error: unknown): void {
      const code = requestErrorCode(error);
      if (code === "internal") {
        logger?.error({ err: error, sandbox: route?.id, port: route?.port }, "proxy request failed");
      }
    }

    try {
      const admission = admit(inbound, outcome);
      if (admission === undefined) {
        return;
      }
      ({ route } = admission);
      const { target, credential, passive } = admission;
      const { port, id } = route;
      const { method } = inbound;
      const authority = sandboxHost(port, id, domain);
      const headers = guestRequestHeaders({
        raw: inbound.headers,
        host: authority,
        framing: inbound.framing,
        method,
        peer: inbound.peer,
        inboundAuthority: target.authority ?? inbound.authority,
        secure: inbound.secure,
        stripAccessToken: !derived,
        upgrade: upgrade?.protocol,
      });
      const request: GuestRequest = {
        method,
        path: target.raw,
        authority,
        headers,
        empty: inbound.framing.kind === "none",
        chunked: inbound.framing.kind === "chunked",
        upgrade: upgrade !== undefined,
      };
      const send = guestHttp2 && upgrade === undefined ? requestHttp2 : requestHttp1;
      forward({
        inbound,
        outcome,
        open: (signal) => dialer.open({ port, id }, credential, passive, signal),
        send: (relay, events) => send(relay, request, events),
        onSwitch: upgrade === undefined ? undefined : (change) => upgrade.join(change),
        onRefused: refuse,
      }).catch((error: unknown) => {
        logger?.error({ err: error, sandbox: id, port }, "proxy request failed");
        inbound.cut();
      });
    } catch (error) {
      outcome.status = answerError(inbound, requestErrorCode(error));
      refuse(error);
    }
  }

  return {
    domain,
    logger,
    request: (request, response) => handle(new Http1Inbound(request, response, false), undefined),
    checkContinue: (request, response) => handle(new Http1Inbound(request, response, true), undefined),
    upgrade: (request, socket, head) => {
      const upgrade = new UpgradeSocket(request, socket, head);
      handle(new Http1Inbound(request, upgrade.response, false), upgrade);
    },
    stream: (stream, headers, _flags, rawHeaders) => handle(new Http2Inbound(stream, headers, rawHeaders), undefined),
    close: () => resolver.close(),
  };
}
