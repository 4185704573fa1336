import { ApiServerError } from "../api-server-error.ts";
import { record } from "./foreign.ts";
import type { RemoteHeaderNames } from "./request-headers.ts";
import { readTrustBundle } from "./trust-bundle.ts";
import type { TrustBundle } from "./verify-chain.ts";

/** Which front proxies are believed, and how they say whom they speak for. */
export interface RequestHeaderTrust {
  readonly authorities: TrustBundle;
  /** Common names of their certificates; empty: any. */
  readonly allowedNames: readonly string[];
  readonly headers: RemoteHeaderNames;
}

/** How clients authenticate with certificates. */
export interface CertificateTrust {
  /** Those that sign certificates of users. */
  readonly clientCa: TrustBundle | undefined;
  readonly requestHeader: RequestHeaderTrust | undefined;
}

/** The ConfigMap in which kube-apiserver tells it. Kube specification §4.2. */
export const EXTENSION_AUTHENTICATION = {
  namespace: "kube-system",
  name: "extension-apiserver-authentication",
} as const;

const SUBJECT = `ConfigMap ${EXTENSION_AUTHENTICATION.namespace}/${EXTENSION_AUTHENTICATION.name}`;

/**
 * Reads what the ConfigMap holds. Authorities that did not change since `before` stay the same objects.
 * @throws ApiServerError `certificates` or `authentication_lookup` for what cannot be read.
 */
export function readClusterAuthentication(configMap: unknown, before?: CertificateTrust): CertificateTrust {
  const data = record(record(configMap)["data"]);
  const bundle = (key: string, known: TrustBundle | undefined): TrustBundle | undefined => {
    const pem = data[key];
    if (typeof pem !== "string" || pem === "") {
      return undefined;
    }
    const read = readTrustBundle(`${SUBJECT}, ${key}`, pem);
    return known?.pem === read.pem ? known : read;
  };
  const list = (key: string): readonly string[] => readList(key, data[key]);
  const authorities = bundle("requestheader-client-ca-file", before?.requestHeader?.authorities);
  return {
    clientCa: bundle("client-ca-file", before?.clientCa),
    requestHeader:
      authorities === undefined
        ? undefined
        : {
            authorities,
            allowedNames: list("requestheader-allowed-names"),
            headers: {
              username: list("requestheader-username-headers"),
              uid: list("requestheader-uid-headers"),
              group: list("requestheader-group-headers"),
              extraPrefix: list("requestheader-extra-headers-prefix"),
            },
          },
  };
}

/** A list of strings, written as JSON in a string. */
function readList(key: string, text: unknown): readonly string[] {
  if (text === undefined || text === "") {
    return [];
  }
  let value: unknown;
  try {
    value = typeof text === "string" ? JSON.parse(text) : undefined;
  } catch {
    // It is judged below.
  }
  // An empty prefix would be that of every header.
  if (!Array.isArray(value) || !value.every((one): one is string => typeof one === "string" && one !== "")) {
    throw new ApiServerError("authentication_lookup", `${SUBJECT}, ${key}: not a JSON array of strings`);
  }
  return value;
}
