import { readFile } from "node:fs/promises";
import { parseBindAddress } from "@org/sandbox-address";
import type { InventorySource } from "@org/scale";
import { checkNamespace, parseKeyFile } from "./api-keys.ts";
import type { ApiKey } from "./api-keys.ts";
import { parseSeconds } from "./duration.ts";
import { checkEnvdVersion } from "./envd-version.ts";
import { E2bError } from "./errors.ts";
import { checkDomain, DEFAULT_ENVD_VERSION, DEFAULT_NAMESPACE, DEFAULT_TIMEOUT_SECONDS } from "./options.ts";
import type { ServerOptions } from "./options.ts";
import { parseAliasFile } from "./template-aliases.ts";
import type { TemplateAlias } from "./template-aliases.ts";

/** One command-line option in the shape that yargs takes. */
export interface FlagOption {
  readonly type: "string" | "boolean";
  readonly describe: string;
  readonly group: string;
  readonly alias?: string;
  readonly default?: string | boolean;
  readonly requiresArg?: boolean;
}

const GROUP = "E2B API:";

function text(describe: string, extra: { readonly default?: string; readonly alias?: string } = {}): FlagOption {
  return { type: "string", requiresArg: true, group: GROUP, describe, ...extra };
}

function stringFlag(argv: Readonly<Record<string, unknown>>, name: string): string | undefined {
  const value = argv[name];
  if (value === undefined || value === null) {
    return undefined;
  }
  if (typeof value !== "string") {
    throw new E2bError("invalid_flag", `--${name}: want one value`);
  }
  return value;
}

function booleanFlag(argv: Readonly<Record<string, unknown>>, name: string): boolean {
  const value = argv[name] ?? false;
  if (typeof value !== "boolean") {
    throw new E2bError("invalid_flag", `--${name}: want true or false`);
  }
  return value;
}

function naming<T>(name: string, check: () => T): T {
  try {
    return check();
  } catch (error) {
    throw new E2bError("invalid_flag", `--${name}: ${error instanceof Error ? error.message : "invalid"}`);
  }
}

async function read(what: string, file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    const reason = error instanceof Error ? error.message : "unreadable";
    throw new E2bError("file_unreadable", `read ${what} file ${JSON.stringify(file)}: ${reason}`, { cause: error });
  }
}

/** Flags whose files were read and checked. */
export interface LoadedFlags {
  readonly bindAddress: string;
  readonly domain: string;
  readonly namespace: string;
  readonly keys: readonly ApiKey[];
  readonly aliases: readonly TemplateAlias[];
  /** The key of derived access tokens; the data plane needs the same one. A secret. */
  readonly envdSecret: string | undefined;
  /** Everything that `createServer` needs besides a store and, if wanted, a logger. */
  serverOptions(inventory: InventorySource): ServerOptions;
}

/** The `--e2b-*` block, the same in every program that serves this API. */
export class Flags {
  readonly bindAddress: string;
  readonly namespace: string;
  /** Empty when it was not given: `load` refuses that, a program may fill it in before. */
  readonly domain: string;
  readonly envdVersion: string;
  readonly defaultTimeoutSeconds: number;
  readonly allowAnonymous: boolean;
  readonly apiKeyFile: string | undefined;
  readonly templateAliasFile: string | undefined;
  readonly envdSecretFile: string | undefined;

  private constructor(argv: Readonly<Record<string, unknown>>) {
    this.bindAddress = stringFlag(argv, "e2b-bind-address") ?? ":8080";
    if (parseBindAddress(this.bindAddress) === undefined) {
      throw new E2bError("invalid_flag", `--e2b-bind-address: ${JSON.stringify(this.bindAddress)} is not host:port`);
    }
    this.namespace = stringFlag(argv, "e2b-namespace") ?? DEFAULT_NAMESPACE;
    naming("e2b-namespace", () => checkNamespace(this.namespace, "namespace"));
    this.domain = stringFlag(argv, "e2b-domain") ?? "";
    if (this.domain !== "") {
      naming("e2b-domain", () => checkDomain(this.domain));
    }
    // An empty version and a zero timeout mean the defaults, as they do in unit files that set every variable.
    this.envdVersion = stringFlag(argv, "e2b-envd-version") || DEFAULT_ENVD_VERSION;
    naming("e2b-envd-version", () => checkEnvdVersion(this.envdVersion));
    const timeout = stringFlag(argv, "e2b-default-timeout") ?? "0";
    const seconds = parseSeconds(timeout);
    if (seconds === undefined) {
      throw new E2bError(
        "invalid_flag",
        `--e2b-default-timeout: ${JSON.stringify(timeout)} is not a duration of whole seconds, such as 300s or 5m`,
      );
    }
    this.defaultTimeoutSeconds = seconds === 0 ? DEFAULT_TIMEOUT_SECONDS : seconds;
    this.allowAnonymous = booleanFlag(argv, "e2b-allow-anonymous");
    this.apiKeyFile = stringFlag(argv, "e2b-api-key-file") || undefined;
    this.templateAliasFile =
      (stringFlag(argv, "e2b-template-aliases") ?? stringFlag(argv, "e2b-template-alias-file")) || undefined;
    this.envdSecretFile = stringFlag(argv, "e2b-envd-secret-file") || undefined;
  }

  /** The options to declare on the command line. */
  static options(): Record<string, FlagOption> {
    return {
      "e2b-bind-address": text("Address of the E2B API; an empty host means every interface", { default: ":8080" }),
      "e2b-namespace": text("Namespace of keys that name none, and of anonymous requests", {
        default: DEFAULT_NAMESPACE,
      }),
      "e2b-domain": text("Base domain of sandboxes: clients reach <port>-<sandboxID>.<domain>"),
      "e2b-envd-version": text("Guest daemon version that clients are told", { default: DEFAULT_ENVD_VERSION }),
      "e2b-default-timeout": text("Lease of a sandbox whose creator names none, and of a refresh", {
        default: `${DEFAULT_TIMEOUT_SECONDS}s`,
      }),
      "e2b-api-key-file": text('File of API keys, one "key" or "key namespace" per line'),
      "e2b-allow-anonymous": {
        type: "boolean",
        group: GROUP,
        default: false,
        describe: "Serve everybody when no key is configured",
      },
      "e2b-template-aliases": text('File of template names, one "alias image [small|medium|large]" per line', {
        alias: "e2b-template-alias-file",
      }),
      "e2b-envd-secret-file": text("File with the secret of derived access tokens; needed for environment variables"),
    };
  }

  /** Reads parsed arguments, keyed by flag name. Throws `invalid_flag` naming the flag. */
  static from(argv: Readonly<Record<string, unknown>>): Flags {
    return new Flags(argv);
  }

  /**
   * Reads and checks the key, alias and secret files, in this order. Throws `invalid_options`, `file_unreadable` or
   * `invalid_file`; no message shows a secret.
   */
  async load(): Promise<LoadedFlags> {
    const { bindAddress, domain, namespace, envdVersion, defaultTimeoutSeconds, allowAnonymous } = this;
    checkDomain(domain);
    const keys =
      this.apiKeyFile === undefined
        ? []
        : parseKeyFile(await read("API key", this.apiKeyFile), namespace, this.apiKeyFile);
    if (keys.length === 0 && this.apiKeyFile !== undefined && !allowAnonymous) {
      throw new E2bError("invalid_file", `key file ${JSON.stringify(this.apiKeyFile)} holds no key`);
    }
    if (keys.length === 0 && !allowAnonymous) {
      throw new E2bError(
        "invalid_options",
        "no API key is configured: set --e2b-api-key-file or --e2b-allow-anonymous",
      );
    }
    const aliases =
      this.templateAliasFile === undefined
        ? []
        : parseAliasFile(await read("template alias", this.templateAliasFile), this.templateAliasFile);
    const envdSecret =
      this.envdSecretFile === undefined ? undefined : (await read("envd secret", this.envdSecretFile)).trim();
    if (envdSecret === "") {
      throw new E2bError("invalid_file", `envd secret file ${JSON.stringify(this.envdSecretFile)} is blank`);
    }
    return {
      bindAddress,
      domain,
      namespace,
      keys,
      aliases,
      envdSecret,
      serverOptions: (inventory) => ({
        inventory,
        domain,
        namespace,
        keys,
        allowAnonymous,
        aliases,
        envdSecret,
        envdVersion,
        defaultTimeoutSeconds,
      }),
    };
  }
}
