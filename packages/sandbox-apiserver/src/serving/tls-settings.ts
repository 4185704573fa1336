import { constants } from "node:crypto";
import { createSecureContext, type SecureContextOptions } from "node:tls";
import { ApiServerError } from "../api-server-error.ts";

/** How connections are secured. */
export interface TlsSettings {
  /** The least version that is spoken. @default "TLSv1.2" */
  readonly minVersion?: "TLSv1.2" | "TLSv1.3" | undefined;
  /** Cipher suites by their IANA names; those of TLS 1.3 are always on. @default those of Node */
  readonly cipherSuites?: readonly string[] | undefined;
  /** Groups of the key exchange by their IANA numbers, the preferred first. @default those of Node */
  readonly curves?: readonly number[] | undefined;
}

const TLS13 = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];

/** IANA name and OpenSSL name. */
const SUITES: Readonly<Record<string, string>> = {
  TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: "ECDHE-ECDSA-AES128-GCM-SHA256",
  TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256: "ECDHE-RSA-AES128-GCM-SHA256",
  TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384: "ECDHE-ECDSA-AES256-GCM-SHA384",
  TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384: "ECDHE-RSA-AES256-GCM-SHA384",
  TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305: "ECDHE-ECDSA-CHACHA20-POLY1305",
  TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305: "ECDHE-RSA-CHACHA20-POLY1305",
  TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256: "ECDHE-ECDSA-CHACHA20-POLY1305",
  TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256: "ECDHE-RSA-CHACHA20-POLY1305",
  TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA: "ECDHE-ECDSA-AES128-SHA",
  TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA: "ECDHE-RSA-AES128-SHA",
  TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA: "ECDHE-ECDSA-AES256-SHA",
  TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA: "ECDHE-RSA-AES256-SHA",
  TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256: "ECDHE-ECDSA-AES128-SHA256",
  TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256: "ECDHE-RSA-AES128-SHA256",
  TLS_RSA_WITH_AES_128_GCM_SHA256: "AES128-GCM-SHA256",
  TLS_RSA_WITH_AES_256_GCM_SHA384: "AES256-GCM-SHA384",
  TLS_RSA_WITH_AES_128_CBC_SHA: "AES128-SHA",
  TLS_RSA_WITH_AES_256_CBC_SHA: "AES256-SHA",
};

/** IANA number of a group and OpenSSL's name. */
const CURVES: Readonly<Record<number, string>> = {
  23: "P-256",
  24: "P-384",
  25: "P-521",
  29: "X25519",
  4588: "X25519MLKEM768",
};

/**
 * The part of a secure context that its certificate does not decide.
 * @throws ApiServerError `invalid_options` for what this build of Node cannot do.
 */
export function contextSettings(settings: TlsSettings): SecureContextOptions {
  const { minVersion = "TLSv1.2", cipherSuites = [], curves = [] } = settings;
  const options: SecureContextOptions = {
    minVersion,
    // A session that is taken up again would come without the certificates that its client showed, and would outlive the
    // authorities that it was judged by; in a renegotiation the client could show others.
    secureOptions: constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION,
    ...(cipherSuites.length > 0 && { ciphers: [...TLS13, ...cipherSuites.map(openSslSuite)].join(":") }),
    ...(curves.length > 0 && { ecdhCurve: curves.map(openSslCurve).join(":") }),
  };
  try {
    createSecureContext(options);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ApiServerError("invalid_options", `the TLS settings cannot be had: ${reason}`, { cause });
  }
  return options;
}

function openSslSuite(name: string): string {
  const suite = TLS13.includes(name) ? name : SUITES[name];
  if (suite === undefined) {
    throw new ApiServerError("invalid_options", `cipher suite ${JSON.stringify(name)} is not supported`);
  }
  return suite;
}

function openSslCurve(number: number): string {
  const curve = CURVES[number];
  if (curve === undefined) {
    throw new ApiServerError("invalid_options", `TLS curve ${number} is not supported`);
  }
  return curve;
}
