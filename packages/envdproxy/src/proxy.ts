import type { IncomingMessage, ServerResponse } from "node:http";
import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import type { Duplex } from "node:stream";
import { sandboxHost } from "@org/sandbox-address";
import type { Logger } from "@org/scale";
import type { Registry } from "prom-client";
import { answerEmpty, answerError, answerPreflight, asksToNameSandbox, isPreflight } from "./answers.ts";
import { Counters } from "./counters.ts";
import type { ClientProtocol } from "./counters.ts";
import { EnvdProxyError, refusal, requestErrorCode } from "./errors.ts";
import { forward } from "./exchange.ts";
import type { Outcome } from "./exchange.ts";
import { connectionFields, guestRequestHeaders } from "./forward-headers.ts";
import { requestHttp1 } from "./guest-http1.ts";
import { requestHttp2 } from "./guest-http2.ts";
import type { GuestRequest } from "./guest-leg.ts";
import { Http1Inbound } from "./inbound-http1.ts";
import { Http2Inbound } from "./inbound-http2.ts";
import type { Inbound } from "./inbound.ts";
import { MAX_IDLE_RELAYS, MAX_IDLE_RELAYS_PER_SANDBOX } from "./limits.ts";
import { registerMetrics } from "./metrics.ts";
import { createOwnerResolver } from "./owner-resolver.ts";
import type { ProxiedStore } from "./proxied-store.ts";
import { ENVD_PORT, publicPortTest } from "./public-ports.ts";
import type { PublicPorts } from "./public-ports.ts";
import { count, firstValue } from "./raw-headers.ts";
import type { RawHeaders } from "./raw-headers.ts";
import { createRelayDialer } from "./relay-dialer.ts";
import type { Credential } from "./relay-dialer.ts";
import { RelayPool } from "./relay-pool.ts";
import { RelaySlots } from "./relay-slots.ts";
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
  /**
   * How long a relay is kept for the next request to the same port once it answered one in full, in milliseconds; 0
   * opens a relay for every request. An open relay keeps its sandbox awake: stay far below any idle time after which
   * nodes put sandboxes to sleep. @default 1000
   */
  readonly relayIdleMs?: number | undefined;
  /** Open relays of all sandboxes together, idle ones included. Beyond it requests are a 429. @default no limit */
  readonly maxRelays?: number | undefined;
  /** Open relays of one sandbox. Beyond it requests are a 429, but for health probes. @default no limit */
  readonly maxRelaysPerSandbox?: number | undefined;
  /**
   * How long a node may take to open a relay, in milliseconds; beyond it the request is a 500. A paused sandbox wakes
   * meanwhile, an archived one is restored. @default 300000
   */
  readonly dialTimeoutMs?: number | undefined;
  /** Where the proxy's metrics are shown. One proxy to a registry. @default nowhere */
  readonly registry?: Registry | undefined;
  /** Whether the nodes are known, for `/readyz`. @default always */
  readonly ready?: (() => boolean) | undefined;
  /** Milliseconds of a clock that never goes back. @default performance.now */
  readonly now?: (() => number) | undefined;
}

/** The data plane as listeners for Node's servers. No listener throws, and none answers without a body on errors. */
export interface ProxyHandler {
  readonly domain: string;
  readonly logger: Logger | undefined;
  /** What this proxy counted so far. */
  readonly counters: Counters;
  /** Whether requests can be expected to find their sandboxes: nodes are known, and no drain began. */
  ready(): boolean;
  /** Begins to end: not ready any more, and no relay is kept. Requests go on being served. */
  drain(): void;
  /** For `request` of an HTTP/1.1 server. */
  readonly request: (request: IncomingMessage, response: ServerResponse) => void;
  /** For `checkContinue` of an HTTP/1.1 server: the client is asked for its body once the guest is reached. */
  readonly checkContinue: (request: IncomingMessage, response: ServerResponse) => void;
  /** For a request that was read by other means. */
  readonly inbound: (inbound: Inbound) => void;
  /** For `upgrade` of an HTTP/1.1 server. The socket may be half open. */
  readonly upgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => void;
  /** For `stream` of an HTTP/2 server. */
  readonly stream: (
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    flags: number,
    rawHeaders: RawHeaders,
  ) => void;
  /** Lets go of the store and closes idle relays. Requests that run are not touched. */
  close(): void;
}

/** Below the keep-alive time of any server in common use, and far below the idle time of any sandbox. */
const RELAY_IDLE_MS = 1000;
const DIAL_TIMEOUT_MS = 300_000;
const LONGEST_TIMER_MS = 0x7fff_ffff;
/** Characters of a path in the access log: a client decides how long it is. */
const MAX_LOGGED_PATH = 1024;

/** Methods that may be sent twice. */
const REPEATABLE = new Set(["GET", "HEAD", "OPTIONS"]);

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

/** Whether a request is a streaming call of the Connect protocol. */
function isConnectStream(inbound: Inbound): boolean {
  return firstValue(inbound.headers, "content-type")?.toLowerCase().startsWith("application/connect+") === true;
}

function budget(name: string, value: number | undefined): number | undefined {
  if (value !== undefined && !(value >= 0 && Number.isFinite(value))) {
    throw new EnvdProxyError("invalid_options", `${name} must be a number that is not negative`);
  }
  return value;
}

function limit(name: string, value: number | undefined): number {
  if (value !== undefined && !(value >= 1)) {
    throw new EnvdProxyError("invalid_options", `${name} must be a positive number`);
  }
  return value ?? Number.POSITIVE_INFINITY;
}

function dialTimeout(value: number | undefined): number {
  if (value !== undefined && !(value >= 1 && value <= LONGEST_TIMER_MS)) {
    throw new EnvdProxyError("invalid_options", `dialTimeoutMs must be between 1 and ${LONGEST_TIMER_MS}`);
  }
  return value ?? DIAL_TIMEOUT_MS;
}

/**
 * Builds the data plane over a store. Does no I/O by itself. Throws `invalid_options` for a blank domain or secret, and
 * when the guest daemon's port is to be public.
 */
export function createProxy(options: ProxyOptions): ProxyHandler {
  const { store, logger, envdSecret, guestHttp2 = false, accessLog = "debug", registry } = options;
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
  const relayIdleMs = budget("relayIdleMs", options.relayIdleMs) ?? RELAY_IDLE_MS;
  const counters = new Counters();
  const pool = new RelayPool({
    idleMs: relayIdleMs,
    maxPerOwner: MAX_IDLE_RELAYS_PER_SANDBOX,
    maxIdle: MAX_IDLE_RELAYS,
    now,
    onDropped: (why) => counters.dropped.add(why),
  });
  counters.relaysIdle = () => pool.size;
  if (registry !== undefined) {
    registerMetrics(registry, counters);
  }
  let draining = false;
  const resolver = createOwnerResolver({
    store,
    secret: envdSecret,
    namespace: options.namespace,
    now,
    onLookup: (result) => counters.lookups.add(result),
    onForgotten: (owner) => pool.retire(owner),
    ...(asksPerSecond === undefined ? {} : { asksPerSecond }),
    ...(askBurst === undefined ? {} : { askBurst }),
    ...(keepMs === undefined ? {} : { keepMs }),
  });
  const dialer = createRelayDialer({
    store,
    resolver,
    derived,
    pool,
    slots: new RelaySlots({
      total: limit("maxRelays", options.maxRelays),
      perSandbox: limit("maxRelaysPerSandbox", options.maxRelaysPerSandbox),
    }),
    counters,
    dialTimeoutMs: dialTimeout(options.dialTimeoutMs),
    logger,
  });

  function ready(): boolean {
    return !draining && (options.ready?.() ?? true);
  }

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
    if (isPreflight(inbound) && (route !== undefined || asksToNameSandbox(inbound))) {
      outcome.status = answerPreflight(inbound);
      return undefined;
    }
    if (route === undefined) {
      if (target.raw.split("?", 1)[0] === "/readyz" && (method === "GET" || method === "HEAD")) {
        if (!ready()) {
          throw refusal("not_ready");
        }
        outcome.status = answerEmpty(inbound);
        return undefined;
      }
      throw refusal("no_sandbox");
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
        // Neither the query nor the user of an absolute target, which may hold secrets.
        path: parseTarget(inbound.target)?.raw.split(/[?#]/, 1)[0]?.slice(0, MAX_LOGGED_PATH),
        sandbox: route?.id,
        port: route?.port,
        status: outcome.status,
        broken: outcome.broken,
        durationMs: Math.round(now() - startedAt),
      },
      "proxied request",
    );
  }

  function handle(inbound: Inbound, protocol: ClientProtocol, upgrade: UpgradeSocket | undefined): void {
    const startedAt = now();
    const outcome: Outcome = { status: 499, broken: false };
    let route: Route | undefined;
    counters.running += 1;
    const onOver = (): void => {
      counters.running -= 1;
      counters.requests.add(`${protocol} ${Math.floor(outcome.status / 100)}xx`);
      counters.broken += outcome.broken ? 1 : 0;
      record(inbound, outcome, startedAt, route);
    };
    inbound.onClose(onOver);
    upgrade?.onSwitched(onOver);

    function refuse(error: unknown): void {
      const code = requestErrorCode(error);
      counters.refusals.add(code);
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
      exchange(inbound, outcome, admission, upgrade, startedAt, refuse);
    } catch (error) {
      outcome.status = answerError(inbound, requestErrorCode(error));
      refuse(error);
    }
  }

  function exchange(
    inbound: Inbound,
    outcome: Outcome,
    { target, route, credential, passive }: Admission,
    upgrade: UpgradeSocket | undefined,
    startedAt: number,
    refuse: (error: unknown) => void,
  ): void {
    const { port, id } = route;
    const { method, framing } = inbound;
    const authority = sandboxHost(port, id, domain);
    const fields = guestRequestHeaders({
      raw: inbound.headers,
      host: authority,
      framing,
      method,
      peer: inbound.peer,
      inboundAuthority: target.authority ?? inbound.authority,
      secure: inbound.secure,
      stripAccessToken: !derived,
    });
    const overHttp2 = guestHttp2 && upgrade === undefined;
    const send = overHttp2 ? requestHttp2 : requestHttp1;
    const repeatable = framing.kind === "none" && REPEATABLE.has(method);
    const single = overHttp2 || upgrade !== undefined || relayIdleMs === 0;
    forward({
      inbound,
      outcome,
      repeatable,
      keep: !single,
      reuse: () => dialer.reuse({ route, credential, passive, fresh: single }),
      open: async (fresh, signal) => {
        try {
          return await dialer.open({ route, credential, passive, fresh: fresh || single }, signal);
        } catch (error) {
          const limited = requestErrorCode(error) === "too_many_relays" && isConnectStream(inbound);
          throw limited ? refusal("too_many_streams", error) : error;
        }
      },
      send: (relay, keep, events) => {
        const request: GuestRequest = {
          method,
          path: target.raw,
          authority,
          headers: [...fields, ...connectionFields(keep, upgrade?.protocol)],
          empty: framing.kind === "none",
          whole: Buffer.isBuffer(inbound.body) && framing.kind === "length" ? inbound.body : undefined,
          chunked: framing.kind === "chunked",
          upgrade: upgrade !== undefined,
        };
        return send(relay, request, events);
      },
      onSwitch: upgrade === undefined ? undefined : (change) => upgrade.join(change),
      onHead: () => counters.onHead(now() - startedAt),
      onRetry: () => {
        counters.relayRetries += 1;
      },
      onBytes: (direction, bytes) => {
        if (direction === "guest") {
          counters.bytesToGuests += bytes;
        } else {
          counters.bytesToClients += bytes;
        }
      },
      onRefused: refuse,
      onFault: (error) => {
        logger?.error({ err: error, sandbox: id, port }, "proxy request failed");
        inbound.cut();
      },
    });
  }

  return {
    domain,
    logger,
    counters,
    ready,
    drain: () => {
      draining = true;
      pool.close();
    },
    request: (request, response) => handle(new Http1Inbound(request, response, false), "http1", undefined),
    checkContinue: (request, response) => handle(new Http1Inbound(request, response, true), "http1", undefined),
    inbound: (inbound) => handle(inbound, "http1", undefined),
    upgrade: (request, socket, head) => {
      const upgrade = new UpgradeSocket(request, socket, head);
      handle(new Http1Inbound(request, upgrade.response, false), "upgrade", upgrade);
    },
    stream: (stream, headers, _flags, rawHeaders) => {
      handle(new Http2Inbound(stream, headers, rawHeaders), "http2", undefined);
    },
    close: () => {
      resolver.close();
      pool.close();
    },
  };
}
