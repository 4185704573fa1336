import { textOf, UsageError } from "@org/command-line";
import type { FlagOptions, FlagValues } from "@org/command-line";
import { durationOf, listOf, text, toggle } from "./flag-kinds.ts";

const AUTH = "Authentication and authorization:";

/** Who is believed, and who is asked. */
export interface AuthConfig {
  /** Empty: the pod's service account, if there is one. */
  readonly authenticationKubeconfig: string;
  readonly authorizationKubeconfig: string;
  /** Do not read what the cluster says about its authorities. */
  readonly skipLookup: boolean;
  /** Start also when that cannot be read. */
  readonly tolerateLookupFailure: boolean;
  readonly tokenTtlMs: number;
  readonly allowedTtlMs: number;
  readonly deniedTtlMs: number;
  readonly alwaysAllowPaths: readonly string[];
  /** Empty: what the cluster says. */
  readonly clientCaFile: string;
  readonly requestHeader: RequestHeaderConfig;
}

/** The front proxy of the cluster. */
export interface RequestHeaderConfig {
  /** Empty: what the cluster says, and the rest of this counts for nothing. */
  readonly clientCaFile: string;
  readonly allowedNames: readonly string[];
  readonly usernameHeaders: readonly string[];
  readonly groupHeaders: readonly string[];
  readonly extraHeadersPrefix: readonly string[];
  readonly uidHeaders: readonly string[];
}

/** Flags of authentication and authorization. */
export const authOptions: FlagOptions = {
  "authentication-kubeconfig": text(AUTH, "", "Kubeconfig for token reviews; empty is the in-cluster one, if any"),
  "authorization-kubeconfig": text(AUTH, "", "Kubeconfig for access reviews; empty is the in-cluster one, if any"),
  "authentication-skip-lookup": toggle(
    AUTH,
    false,
    "Do not read the ConfigMap kube-system/extension-apiserver-authentication",
  ),
  "authentication-tolerate-lookup-failure": toggle(AUTH, false, "Start also when that ConfigMap cannot be read"),
  "authentication-token-webhook-cache-ttl": text(AUTH, "10s", "How long a token review counts"),
  "authorization-webhook-cache-authorized-ttl": text(AUTH, "10s", "How long a granted access review counts"),
  "authorization-webhook-cache-unauthorized-ttl": text(AUTH, "10s", "How long a refused access review counts"),
  "authorization-always-allow-paths": text(
    AUTH,
    "/healthz,/readyz,/livez",
    "Paths that need no authorization, comma-separated; one may end in *",
  ),
  "client-ca-file": text(AUTH, "", "Certificate authority of client certificates; empty is what the ConfigMap says"),
  "requestheader-client-ca-file": text(
    AUTH,
    "",
    "Certificate authority of the front proxy; empty is what the ConfigMap says of it, headers and names as well",
  ),
  "requestheader-allowed-names": text(
    AUTH,
    "",
    "Common names the front proxy may have, comma-separated; empty allows all",
  ),
  "requestheader-username-headers": text(AUTH, "x-remote-user", "Headers that name the user, the first one first"),
  "requestheader-group-headers": text(AUTH, "x-remote-group", "Headers that name groups"),
  "requestheader-extra-headers-prefix": text(
    AUTH,
    "x-remote-extra-",
    "What headers with more about the user begin with",
  ),
  "requestheader-uid-headers": text(AUTH, "", "Headers that name the user's UID"),
};

/** What counts for nothing without the flag that it belongs to. */
const OF_REQUEST_HEADER = ["requestheader-allowed-names", "requestheader-uid-headers"];

/** Reads {@link authOptions}. @throws UsageError naming the flag */
export function authConfig(values: FlagValues): AuthConfig {
  const clientCaFile = textOf(values, "requestheader-client-ca-file");
  const lone = OF_REQUEST_HEADER.find((flag) => textOf(values, flag) !== "");
  if (clientCaFile === "" && lone !== undefined) {
    throw new UsageError(`--${lone} needs --requestheader-client-ca-file: without it the ConfigMap counts`);
  }
  const usernameHeaders = listOf(values, "requestheader-username-headers");
  if (usernameHeaders.length === 0) {
    throw new UsageError("--requestheader-username-headers is empty: want at least one header");
  }
  return {
    authenticationKubeconfig: textOf(values, "authentication-kubeconfig"),
    authorizationKubeconfig: textOf(values, "authorization-kubeconfig"),
    skipLookup: values["authentication-skip-lookup"] === true,
    tolerateLookupFailure: values["authentication-tolerate-lookup-failure"] === true,
    tokenTtlMs: durationOf(values, "authentication-token-webhook-cache-ttl"),
    allowedTtlMs: durationOf(values, "authorization-webhook-cache-authorized-ttl"),
    deniedTtlMs: durationOf(values, "authorization-webhook-cache-unauthorized-ttl"),
    alwaysAllowPaths: listOf(values, "authorization-always-allow-paths"),
    clientCaFile: textOf(values, "client-ca-file"),
    requestHeader: {
      clientCaFile,
      allowedNames: listOf(values, "requestheader-allowed-names"),
      usernameHeaders,
      groupHeaders: listOf(values, "requestheader-group-headers"),
      extraHeadersPrefix: listOf(values, "requestheader-extra-headers-prefix"),
      uidHeaders: listOf(values, "requestheader-uid-headers"),
    },
  };
}
