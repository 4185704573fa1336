import { parseBindAddress } from "@org/sandbox-address";
import type { InventorySource } from "@org/scale";
import { checkNamespace, parseKeyFile } from "./api-keys.ts";
import type { ApiKey } from "./api-keys.ts";
import { BuildFlags } from "./build-flags.ts";
import type { BuildOptions } from "./builds/build-options.ts";
import { parseOrigins } from "./cors.ts";
import type { CorsOrigins } from "./cors.ts";
import { parseSeconds } from "./duration.ts";
import { checkEnvdVersion } from "./envd-version.ts";
import { E2bError } from "./errors.ts";
import { namingFlag, readFlagFile, switchFlag, switchOption, textFlag, textOption } from "./flag-values.ts";
import type { FlagArguments, FlagOption } from "./flag-values.ts";
import { checkDomain, DEFAULT_ENVD_VERSION, DEFAULT_NAMESPACE, DEFAULT_TIMEOUT_SECONDS } from "./options.ts";
import type { ServerOptions } from "./options.ts";
import { parseAliasFile } from "./template-aliases.ts";
import type { TemplateAlias } from "./template-aliases.ts";

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
  readonly corsOrigins: CorsOrigins;
  readonly builds: BuildFlags;

  private constructor(argv: FlagArguments) {
    this.bindAddress = textFlag(argv, "e2b-bind-address") ?? ":8080";
    if (parseBindAddress(this.bindAddress) === undefined) {
      throw new E2bError("invalid_flag", `--e2b-bind-address: ${JSON.stringify(this.bindAddress)} is not host:port`);
    }
    this.namespace = textFlag(argv, "e2b-namespace") ?? DEFAULT_NAMESPACE;
    namingFlag("e2b-namespace", () => checkNamespace(this.namespace, "namespace"));
    this.domain = textFlag(argv, "e2b-domain") ?? "";
    if (this.domain !== "") {
      namingFlag("e2b-domain", () => checkDomain(this.domain));
    }
    // An empty version and a zero timeout mean the defaults, as they do in unit files that set every variable.
    this.envdVersion = textFlag(argv, "e2b-envd-version") || DEFAULT_ENVD_VERSION;
    namingFlag("e2b-envd-version", () => checkEnvdVersion(this.envdVersion));
    const timeout = textFlag(argv, "e2b-default-timeout") ?? "0";
    const seconds = parseSeconds(timeout);
    if (seconds === undefined) {
      throw new E2bError(
        "invalid_flag",
        `--e2b-default-timeout: ${JSON.stringify(timeout)} is not a duration of whole seconds, such as 300s or 5m`,
      );
    }
    this.defaultTimeoutSeconds = seconds === 0 ? DEFAULT_TIMEOUT_SECONDS : seconds;
    this.allowAnonymous = switchFlag(argv, "e2b-allow-anonymous");
    this.apiKeyFile = textFlag(argv, "e2b-api-key-file") || undefined;
    this.templateAliasFile =
      (textFlag(argv, "e2b-template-aliases") ?? textFlag(argv, "e2b-template-alias-file")) || undefined;
    this.envdSecretFile = textFlag(argv, "e2b-envd-secret-file") || undefined;
    const origins = textFlag(argv, "e2b-cors-origins") || "*";
    this.corsOrigins = namingFlag("e2b-cors-origins", () => parseOrigins(origins));
    this.builds = BuildFlags.from(argv);
  }

  /** The options to declare on the command line. */
  static options(): Record<string, FlagOption> {
    return {
      "e2b-bind-address": textOption("Address of the E2B API; an empty host means every interface", {
        default: ":8080",
      }),
      "e2b-namespace": textOption("Namespace of keys that name none, and of anonymous requests", {
        default: DEFAULT_NAMESPACE,
      }),
      "e2b-domain": textOption("Base domain of sandboxes: clients reach <port>-<sandboxID>.<domain>"),
      "e2b-envd-version": textOption("Guest daemon version that clients are told", { default: DEFAULT_ENVD_VERSION }),
      "e2b-default-timeout": textOption("Lease of a sandbox whose creator names none, and of a refresh", {
        default: `${DEFAULT_TIMEOUT_SECONDS}s`,
      }),
      "e2b-api-key-file": textOption(
        'File of API keys, one "key [namespace [max_sandboxes=N] [create_per_minute=N]]" per line',
      ),
      "e2b-allow-anonymous": switchOption("Serve everybody when no key is configured"),
      "e2b-template-aliases": textOption('File of template names, one "alias image [small|medium|large]" per line', {
        alias: "e2b-template-alias-file",
      }),
      "e2b-envd-secret-file": textOption(
        "File with the secret of derived access tokens; needed for environment variables",
      ),
      "e2b-cors-origins": textOption(
        'Web pages that may use the API: all ("*"), "none", or origins with commas. In anonymous use listed ones alone',
        { default: "*" },
      ),
      ...BuildFlags.options(),
    };
  }

  /** Reads parsed arguments, keyed by flag name. Throws `invalid_flag` naming the flag. */
  static from(argv: FlagArguments): Flags {
    return new Flags(argv);
  }

  /**
   * Reads and checks the key, alias and secret files, and what builds need, in this order. Throws `invalid_options`, `file_unreadable` or
   * `invalid_file`; no message shows a secret.
   */
  async load(): Promise<LoadedFlags> {
    const { bindAddress, domain, namespace, envdVersion, defaultTimeoutSeconds, allowAnonymous, corsOrigins } = this;
    checkDomain(domain);
    const keys =
      this.apiKeyFile === undefined
        ? []
        : parseKeyFile(await readFlagFile("API key", this.apiKeyFile), namespace, this.apiKeyFile);
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
        : parseAliasFile(await readFlagFile("template alias", this.templateAliasFile), this.templateAliasFile);
    const envdSecret =
      this.envdSecretFile === undefined ? undefined : (await readFlagFile("envd secret", this.envdSecretFile)).trim();
    if (envdSecret === "") {
      throw new E2bError("invalid_file", `envd secret file ${JSON.stringify(this.envdSecretFile)} is blank`);
    }
    if (this.builds.on && envdSecret === undefined) {
      throw new E2bError("invalid_options", "--e2b-builds needs a secret: set --e2b-envd-secret-file");
    }
    const builds: BuildOptions | undefined = await this.builds.load();
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
        corsOrigins,
        builds,
      }),
    };
  }
}
