import { textOf, UsageError } from "@org/command-line";
import type { FlagOptions, FlagValues } from "@org/command-line";
import { listOf, refuseSet, text, toggle, wholeOf } from "./flag-kinds.ts";

const SERVING = "Secure serving:";

/** How the aggregated API is served. */
export interface ServingConfig {
  readonly address: string;
  /** 0: not at all. */
  readonly port: number;
  /** Folder of a self-made certificate, for want of a given one. */
  readonly certDir: string;
  readonly certFile: string;
  readonly keyFile: string;
  /** Further certificates, by the name that a client asks for. Empty names: those that the certificate is for. */
  readonly named: readonly NamedCertificate[];
  /** As Go names them, such as `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`. Empty: the usual ones. */
  readonly cipherSuites: readonly string[];
  readonly minVersion: TlsVersion | undefined;
  /** Numbers that IANA gave to key exchanges. Empty: the usual ones. */
  readonly curves: readonly number[];
  readonly http2: boolean;
  /** 0: as many as usual. */
  readonly http2MaxStreams: number;
  /** Several processes may listen at the port at once. */
  readonly reusePort: boolean;
}

/** A certificate for some names alone. */
export interface NamedCertificate {
  readonly certFile: string;
  readonly keyFile: string;
  readonly names: readonly string[];
}

/** Versions of TLS as Node names them. */
export type TlsVersion = "TLSv1.2" | "TLSv1.3";

const VERSIONS: Readonly<Record<string, TlsVersion>> = { VersionTLS12: "TLSv1.2", VersionTLS13: "TLSv1.3" };

/** Key exchanges by the names that Go has for their numbers. */
const CURVES: Readonly<Record<string, number>> = {
  CurveP256: 23,
  CurveP384: 24,
  CurveP521: 25,
  X25519: 29,
  X25519MLKEM768: 4588,
};

/** Flags of the listener of the aggregated API. */
export const servingOptions: FlagOptions = {
  "bind-address": text(SERVING, "0.0.0.0", "Address of the aggregated API"),
  "secure-port": {
    type: "number",
    default: 6443,
    group: SERVING,
    describe: "Port of the aggregated API; 0 does not serve it",
  },
  "cert-dir": text(
    SERVING,
    "apiserver.local.config/certificates",
    "Folder of a self-made certificate, when --tls-cert-file is not set",
  ),
  "tls-cert-file": text(
    SERVING,
    "",
    "Certificate of the aggregated API, with those it is signed by; read again when it changes",
  ),
  "tls-private-key-file": text(SERVING, "", "Private key of the certificate"),
  "tls-sni-cert-key": {
    type: "string",
    repeatable: true,
    group: SERVING,
    describe:
      "A further certificate for clients that ask for its names, as cert,key or cert,key:name,name; may be given several times",
  },
  "tls-cipher-suites": text(
    SERVING,
    "",
    "Cipher suites of TLS 1.2, comma-separated, such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
  ),
  "tls-min-version": text(SERVING, "", "Oldest version of TLS: VersionTLS12 (default) or VersionTLS13"),
  "tls-curve-preferences": text(SERVING, "", "Key exchanges, comma-separated, such as X25519,CurveP256"),
  "disable-http2-serving": toggle(SERVING, false, "Serve HTTP/1.1 alone"),
  "http2-max-streams-per-connection": {
    type: "number",
    default: 0,
    group: SERVING,
    describe: "Requests at once on one connection of HTTP/2; 0 stands for the usual number",
  },
  "permit-port-sharing": toggle(SERVING, false, "Let several processes listen at the port, as SO_REUSEPORT does"),
  "permit-address-sharing": toggle(SERVING, false, "Refused: addresses are always reused as SO_REUSEADDR does"),
};

/** Reads {@link servingOptions}. @throws UsageError naming the flag */
export function servingConfig(values: FlagValues): ServingConfig {
  const certFile = textOf(values, "tls-cert-file");
  const keyFile = textOf(values, "tls-private-key-file");
  if ((certFile === "") !== (keyFile === "")) {
    throw new UsageError("--tls-cert-file and --tls-private-key-file must be set together");
  }
  refuseSet(values, "permit-address-sharing", "addresses are always reused, so leave it out");
  const port = wholeOf(values, "secure-port");
  if (port > 65_535) throw new UsageError(`--secure-port ${port}: want a port from 0 to 65535`);
  return {
    address: textOf(values, "bind-address"),
    port,
    certDir: textOf(values, "cert-dir"),
    certFile,
    keyFile,
    named: namedCertificates(values),
    cipherSuites: listOf(values, "tls-cipher-suites"),
    minVersion: minVersionOf(values),
    curves: listOf(values, "tls-curve-preferences").map(curveOf),
    http2: values["disable-http2-serving"] !== true,
    http2MaxStreams: wholeOf(values, "http2-max-streams-per-connection"),
    reusePort: values["permit-port-sharing"] === true,
  };
}

function minVersionOf(values: FlagValues): TlsVersion | undefined {
  const given = textOf(values, "tls-min-version");
  const version = VERSIONS[given];
  if (given !== "" && version === undefined) {
    throw new UsageError(
      `invalid value ${JSON.stringify(given)} for --tls-min-version: want ${Object.keys(VERSIONS).join(" or ")}`,
    );
  }
  return version;
}

/** By name or by number, as Go takes them. */
function curveOf(given: string): number {
  const curve = CURVES[given] ?? Object.values(CURVES).find((number) => String(number) === given);
  if (curve === undefined) {
    throw new UsageError(
      `invalid value ${JSON.stringify(given)} for --tls-curve-preferences: want some of ${Object.keys(CURVES).join(", ")}`,
    );
  }
  return curve;
}

/** `cert,key` or `cert,key:name,name`. */
function namedCertificates(values: FlagValues): readonly NamedCertificate[] {
  const given = values["tls-sni-cert-key"];
  return (typeof given === "object" ? given : []).map((one) => {
    const [pair = "", names = "", ...more] = one.split(":");
    const [certFile = "", keyFile = "", ...rest] = pair.split(",");
    if (certFile === "" || keyFile === "" || more.length > 0 || rest.length > 0) {
      throw new UsageError(
        `invalid value ${JSON.stringify(one)} for --tls-sni-cert-key: want cert,key or cert,key:name,name`,
      );
    }
    return { certFile, keyFile, names: names.split(",").filter((name) => name !== "") };
  });
}
