import { X509Certificate } from "node:crypto";
import { createSecureContext, type SecureContext, type SecureContextOptions } from "node:tls";
import type { Logger } from "@org/scale";
import { ApiServerError } from "../api-server-error.ts";
import { followFiles } from "../followed-files.ts";
import type { CertificateFiles } from "./self-signed-pair.ts";

/** A certificate for clients that ask for certain names. */
export interface NamedCertificate extends CertificateFiles {
  /** Names, or patterns such as `*.example.com`. @default those in the certificate */
  readonly names?: readonly string[] | undefined;
}

/** Options of {@link ServingContexts.open}. */
export interface ServingContextsOptions {
  readonly files: CertificateFiles;
  /** The first that fits a name is taken; those whose names are given come before the others. */
  readonly named: readonly NamedCertificate[];
  /** The part that no certificate decides. */
  readonly settings: SecureContextOptions;
  /** Authorities that clients are told of, PEM; empty: none. */
  readonly authorities: () => string;
  readonly intervalMs: number | undefined;
  readonly signal: AbortSignal;
  readonly logger: Logger | undefined;
}

interface Pair {
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** The certificates of a server. Files that change are taken up by new connections; those that stand keep theirs. */
export class ServingContexts {
  readonly #options: ServingContextsOptions;
  #pair: Pair | undefined;
  readonly #named: (Pair | undefined)[];
  #contexts: readonly (readonly [names: readonly string[], context: SecureContext])[] = [];
  #onChange: ((options: SecureContextOptions) => void) | undefined;

  private constructor(options: ServingContextsOptions) {
    this.#options = options;
    this.#named = options.named.map(() => undefined);
  }

  /** @throws ApiServerError `certificates` for files that are missing or do not belong together. */
  static async open(options: ServingContextsOptions): Promise<ServingContexts> {
    const contexts = new ServingContexts(options);
    await contexts.#follow(options.files, (pair) => {
      contexts.#pair = pair;
    });
    for (const [place, files] of options.named.entries()) {
      await contexts.#follow(files, (pair) => {
        contexts.#named[place] = pair;
      });
    }
    contexts.refresh();
    return contexts;
  }

  /** What a server that knows no better name uses. */
  get options(): SecureContextOptions {
    return { ...this.#options.settings, ...this.#pair, ...this.#authorities() };
  }

  /** Hands each new set of options to a server, from now on. */
  follow(onChange: (options: SecureContextOptions) => void): void {
    this.#onChange = onChange;
  }

  /** Takes up other authorities. */
  refresh(): void {
    const { named, settings } = this.#options;
    const given = named.map(({ names }, place) => ({ names, pair: this.#named[place] }));
    const ordered = [
      ...given.filter(({ names }) => names !== undefined && names.length > 0),
      ...given.filter(({ names }) => names === undefined || names.length === 0),
    ];
    this.#contexts = ordered.flatMap(({ names, pair }) => {
      if (pair === undefined) {
        return [];
      }
      const context = createSecureContext({ ...settings, ...pair, ...this.#authorities() });
      const wanted = names !== undefined && names.length > 0 ? names : namesIn(pair.cert);
      return [[wanted.map((name) => name.toLowerCase()), context] as const];
    });
    this.#onChange?.(this.options);
  }

  /** The certificate for a name that a client asks for; `undefined`: that of {@link options}. */
  named(servername: string): SecureContext | undefined {
    const name = servername.toLowerCase();
    const pattern = `*${name.slice(Math.max(0, name.indexOf(".")))}`;
    const find = (wanted: string): SecureContext | undefined =>
      this.#contexts.find(([names]) => names.includes(wanted))?.[1];
    return find(name) ?? find(pattern);
  }

  #authorities(): { readonly ca?: string } {
    const ca = this.#options.authorities();
    return ca === "" ? {} : { ca };
  }

  async #follow(files: CertificateFiles, take: (pair: Pair) => void): Promise<void> {
    const { intervalMs, signal, logger } = this.#options;
    const { certFile, keyFile } = files;
    let first = true;
    await followFiles({
      files: [certFile, keyFile],
      apply: ([cert, key]) => {
        if (cert === undefined || key === undefined) {
          return;
        }
        checkPair(files, cert, key);
        take({ cert, key });
        if (!first) {
          this.refresh();
          logger?.info({ certFile }, "serving certificate reloaded");
        }
        first = false;
      },
      onError: (err) => logger?.warn({ err, certFile }, "serving certificate not reloaded"),
      intervalMs,
      signal,
    });
  }
}

function checkPair({ certFile, keyFile }: CertificateFiles, cert: Buffer, key: Buffer): void {
  try {
    createSecureContext({ cert, key });
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ApiServerError(
      "certificates",
      `certificate ${JSON.stringify(certFile)} and private key ${JSON.stringify(keyFile)}: ${reason}`,
      { cause },
    );
  }
}

/** Names that a certificate is for: the alternative ones, or else the common one. */
function namesIn(cert: Buffer): readonly string[] {
  const x509 = new X509Certificate(cert);
  const names = [...(x509.subjectAltName ?? "").matchAll(/(?:^|, )DNS:([^,"]+)/g)].map(([, name]) => name ?? "");
  const common: unknown = Reflect.get(Object(x509.toLegacyObject().subject), "CN");
  return names.length > 0 ? names : typeof common === "string" ? [common] : [];
}
