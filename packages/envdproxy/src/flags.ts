import { parseBindAddress } from "@org/sandbox-address";
import { collectDefaultMetrics, Registry } from "prom-client";
import { EnvdProxyError } from "./errors.ts";
import type { Listener } from "./listener.ts";
import { serveMetrics } from "./metrics-server.ts";
import type { MetricsServer } from "./metrics-server.ts";
import type { ProxyHandler, ProxyOptions } from "./proxy.ts";
import { parsePublicPorts, publicPortTest } from "./public-ports.ts";
import type { PublicPorts } from "./public-ports.ts";
import { serve } from "./serve.ts";
import { loadTlsPair } from "./tls-pair.ts";
import type { TlsFiles, TlsPair } from "./tls-pair.ts";

/** One command-line option in the shape that yargs takes. */
export interface FlagOption {
  readonly type: "string" | "boolean";
  readonly describe: string;
  readonly group: string;
  readonly default?: string | boolean;
  readonly requiresArg?: boolean;
}

/** Prefix of the flags: none in a program that only serves the data plane. */
export type FlagPrefix = "" | "envd-proxy-";

const GROUP = "Data plane:";

/** The same in every program: what watches a process asks the process, not one of its surfaces. */
const METRICS_FLAG = "metrics-bind-address";

function text(describe: string, value = ""): FlagOption {
  return { type: "string", requiresArg: true, group: GROUP, describe, default: value };
}

function stringFlag(argv: Readonly<Record<string, unknown>>, name: string, otherwise: string): string {
  const value = argv[name] ?? otherwise;
  if (typeof value !== "string") {
    throw new EnvdProxyError("invalid_flag", `--${name}: want one value`);
  }
  return value.trim();
}

function booleanFlag(argv: Readonly<Record<string, unknown>>, name: string): boolean {
  const value = argv[name] ?? false;
  if (typeof value !== "boolean") {
    throw new EnvdProxyError("invalid_flag", `--${name}: want true or false`);
  }
  return value;
}

function defaultAddress(prefix: FlagPrefix): string {
  return prefix === "" ? ":8443" : "";
}

function portsFlag(argv: Readonly<Record<string, unknown>>, name: string): PublicPorts {
  try {
    const ports = parsePublicPorts(stringFlag(argv, name, "none"));
    publicPortTest(ports);
    return ports;
  } catch (error) {
    throw new EnvdProxyError("invalid_flag", `--${name}: ${error instanceof Error ? error.message : "invalid"}`);
  }
}

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000 };

function durationFlag(argv: Readonly<Record<string, unknown>>, name: string, otherwise: string): number {
  const value = stringFlag(argv, name, otherwise);
  const match = /^(\d{1,6}(?:\.\d{1,6})?)(ms|s|m)$/.exec(value);
  if (match === null && value !== "0") {
    throw new EnvdProxyError("invalid_flag", `--${name}: ${JSON.stringify(value)} is no duration such as 500ms or 1s`);
  }
  return match === null ? 0 : Number(match[1]) * (UNIT_MS[match[2] ?? ""] ?? 0);
}

/** A limit; 0 is none. */
function limitFlag(argv: Readonly<Record<string, unknown>>, name: string): number | undefined {
  const value = stringFlag(argv, name, "0");
  if (!/^\d{1,9}$/.test(value)) {
    throw new EnvdProxyError("invalid_flag", `--${name}: ${JSON.stringify(value)} is no number, 0 for no limit`);
  }
  return Number(value) === 0 ? undefined : Number(value);
}

function accessLogFlag(argv: Readonly<Record<string, unknown>>, name: string): "off" | "debug" | "info" {
  const value = stringFlag(argv, name, "debug");
  if (value !== "off" && value !== "debug" && value !== "info") {
    throw new EnvdProxyError("invalid_flag", `--${name}: ${JSON.stringify(value)} is not off, debug or info`);
  }
  return value;
}

/** An address that may be empty. */
function addressFlag(argv: Readonly<Record<string, unknown>>, name: string): string {
  const address = stringFlag(argv, name, "");
  if (address !== "" && parseBindAddress(address) === undefined) {
    throw new EnvdProxyError("invalid_flag", `--${name}: ${JSON.stringify(address)} is not host:port`);
  }
  return address;
}

/** The options of `createProxy` that flags decide. */
export type FlaggedOptions = Pick<
  ProxyOptions,
  "guestHttp2" | "publicPorts" | "relayIdleMs" | "maxRelays" | "maxRelaysPerSandbox" | "accessLog" | "registry"
>;

/** The data plane's flags, the same in every program that serves it. */
export class Flags {
  /** Where to listen; empty means that the data plane is off. */
  readonly bindAddress: string;
  readonly guestHttp2: boolean;
  readonly publicPorts: PublicPorts;
  /** To be given to `createProxy`. */
  readonly proxyOptions: FlaggedOptions;
  readonly #metricsAddress: string;
  readonly #certFile: string;
  readonly #keyFile: string;
  readonly #prefix: FlagPrefix;

  private constructor(argv: Readonly<Record<string, unknown>>, prefix: FlagPrefix) {
    this.#prefix = prefix;
    this.bindAddress = stringFlag(argv, `${prefix}bind-address`, defaultAddress(prefix));
    const off = this.bindAddress === "" && prefix !== "";
    if (!off && parseBindAddress(this.bindAddress) === undefined) {
      throw new EnvdProxyError(
        "invalid_flag",
        `--${prefix}bind-address: ${JSON.stringify(this.bindAddress)} is not host:port`,
      );
    }
    this.#certFile = stringFlag(argv, `${prefix}tls-cert-file`, "");
    this.#keyFile = stringFlag(argv, `${prefix}tls-private-key-file`, "");
    this.guestHttp2 = booleanFlag(argv, `${prefix}guest-http2`);
    this.publicPorts = portsFlag(argv, `${prefix}public-ports`);
    this.#metricsAddress = addressFlag(argv, METRICS_FLAG);
    if (off && this.#metricsAddress !== "") {
      throw new EnvdProxyError("invalid_flag", `--${METRICS_FLAG}: set --${prefix}bind-address as well`);
    }
    this.proxyOptions = {
      guestHttp2: this.guestHttp2,
      publicPorts: this.publicPorts,
      relayIdleMs: durationFlag(argv, `${prefix}relay-idle`, "1s"),
      maxRelays: limitFlag(argv, `${prefix}max-relays`),
      maxRelaysPerSandbox: limitFlag(argv, `${prefix}max-relays-per-sandbox`),
      accessLog: accessLogFlag(argv, `${prefix}access-log`),
      registry: this.#metricsAddress === "" ? undefined : new Registry(),
    };
  }

  /** The options to declare on the command line. */
  static options(prefix: FlagPrefix): Record<string, FlagOption> {
    const off = prefix === "" ? "" : "; empty means no data plane in this process";
    return {
      [`${prefix}bind-address`]: text(`Address of the data plane${off}`, defaultAddress(prefix)),
      [`${prefix}tls-cert-file`]: text("Certificate for *.<domain>; without one the data plane is cleartext"),
      [`${prefix}tls-private-key-file`]: text("Private key of the certificate"),
      [`${prefix}guest-http2`]: {
        type: "boolean",
        group: GROUP,
        default: false,
        describe: "Speak HTTP/2 with prior knowledge to every guest port",
      },
      [`${prefix}public-ports`]: text(
        'Guest ports that are reachable without a token: "none", "all", or a list; never 49983',
        "none",
      ),
      [`${prefix}relay-idle`]: text(
        "How long a connection to a guest port is kept for the next request; it keeps the sandbox awake. 0 opens one for each",
        "1s",
      ),
      [`${prefix}max-relays`]: text(
        "Connections to guests at a time, beyond which requests are a 429; 0 for no limit",
        "0",
      ),
      [`${prefix}max-relays-per-sandbox`]: text("The same for one sandbox", "0"),
      [`${prefix}access-log`]: text("Level of the log line for each request: off, debug or info", "debug"),
      [METRICS_FLAG]: text("Address of /metrics, /healthz and /readyz, for operators alone; empty means none"),
    };
  }

  /** Reads parsed arguments, keyed by flag name. Throws `invalid_flag` naming the flag. */
  static from(argv: Readonly<Record<string, unknown>>, prefix: FlagPrefix): Flags {
    return new Flags(argv, prefix);
  }

  /** The TLS files; `undefined` for cleartext. Throws `tls_files` when only one of them is set. */
  #tls(): TlsFiles | undefined {
    if (this.#certFile === "" && this.#keyFile === "") {
      return undefined;
    }
    if (this.#certFile === "" || this.#keyFile === "") {
      const prefix = this.#prefix;
      throw new EnvdProxyError(
        "tls_files",
        `certificate and private key must be set together: --${prefix}tls-cert-file, --${prefix}tls-private-key-file`,
      );
    }
    return { certFile: this.#certFile, keyFile: this.#keyFile };
  }

  /**
   * Checks the TLS files, so that a start fails before anything is dialed or bound, and resolves with what they hold,
   * `undefined` without TLS. Rejects with `tls_files` when only one is set, when one can not be read, or when they do not
   * belong together.
   */
  async load(): Promise<TlsPair | undefined> {
    const tls = this.#tls();
    return tls === undefined ? undefined : loadTlsPair(tls);
  }

  /**
   * Serves `handler` on a bound listener until `signal` aborts and the drain is over; see {@link serve}. Rejects with
   * `tls_files` before the first request when the TLS files can not be used, and with `listen_failed` when the address of
   * the metrics can not; the listener is closed then.
   */
  async serve(
    listener: Listener,
    handler: ProxyHandler,
    options: { readonly signal?: AbortSignal } = {},
  ): Promise<void> {
    let tls: TlsFiles | undefined;
    try {
      tls = this.#tls();
    } catch (error) {
      await listener.close();
      throw error;
    }
    const { registry } = this.proxyOptions;
    if (registry === undefined) {
      await serve(listener, handler, { tls, signal: options.signal });
      return;
    }
    let watched: MetricsServer;
    try {
      watched = await serveMetrics(this.#metricsAddress, { registry, ready: () => handler.ready() });
    } catch (error) {
      await listener.close();
      throw error;
    }
    handler.logger?.info({ address: watched.address }, "serving metrics");
    collectDefaultMetrics({ register: registry });
    try {
      await serve(listener, handler, { tls, signal: options.signal });
    } finally {
      await watched[Symbol.asyncDispose]();
    }
  }
}
