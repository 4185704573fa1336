import type { KubeClient, Timing } from "@org/kubeinventory/client";
import type { Logger } from "@org/scale";
import type { ApiUser, Authentication, Authenticator } from "../security.ts";
import type { Certificate } from "./certificate.ts";
import type { ClientTrust } from "./client-trust.ts";
import { ConnectionCertificates } from "./connection-certificates.ts";
import { REAL_TIMING } from "./real-timing.ts";
import {
  allValues,
  firstValue,
  headerLines,
  secretHeaders,
  stripHeaders,
  valuesByKey,
  type RawRequest,
  type RemoteHeaderNames,
  type SecretHeaders,
} from "./request-headers.ts";
import { TokenReviewer } from "./token-reviewer.ts";

/** Options of {@link createAuthenticator}. */
export interface AuthenticatorOptions {
  /** Whose certificates are believed. @default nobody's */
  readonly trust?: Pick<ClientTrust, "current"> | undefined;
  /** Reviews bearer tokens. @default nobody does: every token is refused */
  readonly client?: Pick<KubeClient, "request"> | undefined;
  /** Whom tokens must be for. @default the API server's own audiences */
  readonly audiences?: readonly string[] | undefined;
  /** How long the review of a token is kept, in milliseconds; 0: not at all. @default 10000 */
  readonly tokenTtlMs?: number | undefined;
  /** Told when reviews fail and when they are back. @default silent */
  readonly logger?: Logger | undefined;
  /** Milliseconds since 1970, for the dates of certificates. @default Date.now */
  readonly clock?: (() => number) | undefined;
  /** For tests. @default real time */
  readonly timing?: Timing | undefined;
}

const TOKEN_TTL_MS = 10_000;
const ANONYMOUS: ApiUser = { name: "system:anonymous", groups: ["system:unauthenticated"] };
const AUTHENTICATED = "system:authenticated";
const REJECTED: Authentication = { kind: "rejected" };

/**
 * An authenticator of the chain in §4.2 of the Kube specification: the front proxy's word, a client certificate, a bearer
 * token; the first that holds counts. Who shows nothing is anonymous, who shows only what does not hold is rejected.
 * A request is left without its credential and without headers of front proxies, whoever sent them.
 */
export function createAuthenticator(options: AuthenticatorOptions = {}): Authenticator {
  const {
    trust,
    client,
    audiences,
    tokenTtlMs = TOKEN_TTL_MS,
    logger,
    clock = Date.now,
    timing = REAL_TIMING,
  } = options;
  const certificates = new ConnectionCertificates(clock);
  const tokens =
    client === undefined ? undefined : new TokenReviewer({ client, audiences, ttlMs: tokenTtlMs, logger, timing });

  let secrets = { names: undefined as RemoteHeaderNames | undefined, isSecret: secretHeaders() };

  /** Worked out once for each set of names. */
  function secretsOf(names: RemoteHeaderNames | undefined): SecretHeaders {
    if (secrets.names !== names) {
      secrets = { names, isSecret: secretHeaders(names) };
    }
    return secrets.isSecret;
  }

  /** Whom a front proxy speaks for. */
  function proxied(request: RawRequest, lines: ReturnType<typeof headerLines>): ApiUser | undefined {
    const proxy = trust?.current.requestHeader;
    if (proxy === undefined) {
      return undefined;
    }
    const chain = certificates.verify(request, proxy.authorities);
    if (chain === undefined || !isAllowed(chain.leaf, proxy.allowedNames)) {
      return undefined;
    }
    return remoteUser(lines, proxy.headers);
  }

  function certified(request: RawRequest): ApiUser | undefined {
    const authorities = trust?.current.clientCa;
    const chain = authorities === undefined ? undefined : certificates.verify(request, authorities);
    return chain === undefined ? undefined : certificateUser(chain.leaf);
  }

  return {
    async authenticate(request, { signal } = {}) {
      const lines = headerLines(request);
      const names = trust?.current.requestHeader?.headers;
      const shown = certificates.shownBy(request);
      const user = shown ? (proxied(request, lines) ?? certified(request)) : undefined;
      // Before anything is waited for: nobody may see them meanwhile.
      stripHeaders(request, secretsOf(names));
      if (user !== undefined) {
        return { kind: "user", user: withGroup(user) };
      }
      const authorizations = lines.filter(([name]) => name === "authorization").map(([, value]) => value);
      const token = bearerToken(authorizations);
      const owner = token === undefined ? undefined : await tokens?.userOf(token, signal);
      if (owner !== undefined) {
        return { kind: "user", user: withGroup(owner) };
      }
      return shown || authorizations.length > 0 ? REJECTED : { kind: "user", user: ANONYMOUS };
    },
  };
}

function isAllowed(leaf: Certificate, allowed: readonly string[]): boolean {
  return allowed.length === 0 || (leaf.commonName !== undefined && allowed.includes(leaf.commonName));
}

function remoteUser(lines: ReturnType<typeof headerLines>, names: RemoteHeaderNames): ApiUser | undefined {
  const name = firstValue(lines, names.username);
  if (name === undefined) {
    return undefined;
  }
  const uid = firstValue(lines, names.uid);
  const extra = valuesByKey(lines, names.extraPrefix);
  return {
    name,
    ...(uid !== undefined && { uid }),
    groups: allValues(lines, names.group),
    ...(Object.keys(extra).length > 0 && { extra }),
  };
}

/** A certificate without a common name is nobody's. */
function certificateUser({ commonName, organizations }: Certificate): ApiUser | undefined {
  return commonName === undefined ? undefined : { name: commonName, groups: organizations };
}

/** The token of the only `Authorization` line. Two of them are nobody's. */
function bearerToken(authorizations: readonly string[]): string | undefined {
  const [only, ...others] = authorizations;
  const match = others.length > 0 ? null : /^bearer +([\x21-\x7e]+)$/i.exec(only?.trim() ?? "");
  return match?.[1];
}

/** Everybody known is one of the authenticated; a front proxy may also speak for an unknown one. */
function withGroup(user: ApiUser): ApiUser {
  const { name, groups } = user;
  const isUnknown = name === ANONYMOUS.name || groups.includes("system:unauthenticated");
  return isUnknown || groups.includes(AUTHENTICATED) ? user : { ...user, groups: [...groups, AUTHENTICATED] };
}
