import { parseBindAddress } from "@org/sandbox-address";
import { EnvdProxyError } from "./errors.ts";
import type { Listener } from "./listener.ts";
import type { ProxyHandler } from "./proxy.ts";
import { parsePublicPorts, publicPortTest } from "./public-ports.ts";
import type { PublicPorts } from "./public-ports.ts";
import { serve } from "./serve.ts";
import { loadTlsPair } from "./tls-pair.ts";
import type { TlsFiles } from "./tls-pair.ts";

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

/** The data plane's flags, the same in every program that serves it. */
export class Flags {
  /** Where to listen; empty means that the data plane is off. */
  readonly bindAddress: string;
  readonly guestHttp2: boolean;
  readonly publicPorts: PublicPorts;
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
   * Checks the TLS files, so that a start fails before anything is dialed or bound. Rejects with `tls_files` when only
   * one is set, when one can not be read, or when they do not belong together.
   */
  async load(): Promise<void> {
    const tls = this.#tls();
    if (tls !== undefined) {
      await loadTlsPair(tls);
    }
  }

  /**
   * Serves `handler` on a bound listener until `signal` aborts and the drain is over; see {@link serve}. Rejects with
   * `tls_files` before the first request when the TLS files can not be used; the listener is closed then.
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
    await serve(listener, handler, { tls, signal: options.signal });
  }
}
