import type { Logger } from "@org/scale";
import { ApiServerError } from "../api-server-error.ts";
import { followFiles } from "../followed-files.ts";
import type { CertificateTrust, RequestHeaderTrust } from "./cluster-authentication.ts";
import type { ExtensionAuthentication } from "./extension-authentication.ts";
import { REMOTE_HEADER_NAMES } from "./request-headers.ts";
import { readTrustBundle } from "./trust-bundle.ts";
import type { TrustBundle } from "./verify-chain.ts";

/** Front proxies to believe, given by hand. */
export interface RequestHeaderOptions {
  /** Authorities of their certificates, PEM. */
  readonly caFile: string;
  /** Common names of their certificates. @default any */
  readonly allowedNames?: readonly string[] | undefined;
  /** @default ["x-remote-user"] */
  readonly usernameHeaders?: readonly string[] | undefined;
  /** @default none */
  readonly uidHeaders?: readonly string[] | undefined;
  /** @default ["x-remote-group"] */
  readonly groupHeaders?: readonly string[] | undefined;
  /** @default ["x-remote-extra-"] */
  readonly extraHeaderPrefixes?: readonly string[] | undefined;
}

/** Options of {@link ClientTrust.open}. */
export interface ClientTrustOptions {
  /** Authorities of users' certificates, PEM. @default those that the cluster names */
  readonly clientCaFile?: string | undefined;
  /** Taken as a whole in place of what the cluster says. @default what the cluster says */
  readonly requestHeader?: RequestHeaderOptions | undefined;
  /** What the cluster says. @default nothing */
  readonly extension?: ExtensionAuthentication | undefined;
  /** How often files are read again, in milliseconds. @default 10000 */
  readonly intervalMs?: number | undefined;
  /** Ends the watch of the files. */
  readonly signal: AbortSignal;
  /** @default silent */
  readonly logger?: Logger | undefined;
}

/** Whom to believe by their certificates: files first, which are read again when they change, then the cluster. */
export class ClientTrust {
  readonly #extension: ExtensionAuthentication | undefined;
  readonly #listeners = new Set<() => void>();
  #clientCa: TrustBundle | undefined;
  #requestHeader: RequestHeaderTrust | undefined;

  private constructor(extension: ExtensionAuthentication | undefined) {
    this.#extension = extension;
    extension?.onChange(() => this.#changed());
  }

  /** @throws ApiServerError `certificates` for a file that holds no authorities; `invalid_options` for empty names. */
  static async open(options: ClientTrustOptions): Promise<ClientTrust> {
    const { clientCaFile, requestHeader, extension, intervalMs, signal, logger } = options;
    const trust = new ClientTrust(extension);
    const follow = (file: string, take: (bundle: TrustBundle) => void): Promise<void> =>
      followFiles({
        files: [file],
        apply: ([content]) => {
          take(readTrustBundle(JSON.stringify(file), content?.toString("latin1") ?? ""));
          trust.#changed();
        },
        onError: (err) => logger?.warn({ err, file }, "authorities of clients not reloaded"),
        intervalMs,
        signal,
      });
    if (clientCaFile !== undefined) {
      await follow(clientCaFile, (bundle) => {
        trust.#clientCa = bundle;
      });
    }
    if (requestHeader !== undefined) {
      const rest = proxyTrust(requestHeader);
      await follow(requestHeader.caFile, (authorities) => {
        trust.#requestHeader = { authorities, ...rest };
      });
    }
    return trust;
  }

  /** What holds now. */
  get current(): CertificateTrust {
    return {
      clientCa: this.#clientCa ?? this.#extension?.current.clientCa,
      requestHeader: this.#requestHeader ?? this.#extension?.current.requestHeader,
    };
  }

  /** All authorities together, PEM, as clients are told of them in the handshake. That proves nothing yet. */
  get authorities(): string {
    const { clientCa, requestHeader } = this.current;
    return `${clientCa?.pem ?? ""}${requestHeader?.authorities.pem ?? ""}`;
  }

  /** Calls back after each change. Returns what ends that. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  #changed(): void {
    for (const listener of this.#listeners) {
      listener();
    }
  }
}

function proxyTrust(options: RequestHeaderOptions): Omit<RequestHeaderTrust, "authorities"> {
  const {
    allowedNames = [],
    usernameHeaders: username = REMOTE_HEADER_NAMES.username,
    uidHeaders: uid = REMOTE_HEADER_NAMES.uid,
    groupHeaders: group = REMOTE_HEADER_NAMES.group,
    extraHeaderPrefixes: extraPrefix = REMOTE_HEADER_NAMES.extraPrefix,
  } = options;
  // An empty prefix would be that of every header.
  if ([...username, ...uid, ...group, ...extraPrefix].includes("")) {
    throw new ApiServerError("invalid_options", "a header of the front proxy has no name");
  }
  if (username.length === 0) {
    throw new ApiServerError("invalid_options", "no header of the front proxy names the user");
  }
  return { allowedNames, headers: { username, uid, group, extraPrefix } };
}
