import { randomBytes } from "node:crypto";
import { rename, rm, writeFile } from "node:fs/promises";
import type { DevCertificate } from "./tls/dev-certificate.ts";

/** Variables that point the E2B SDKs and the CLI at this machine. */
export type SdkEnvironment = Readonly<Record<string, string>>;

type Env = Readonly<Record<string, string | undefined>>;

/** What {@link sdkEnvironment} is made of. */
export interface SdkEndpoints {
  readonly apiUrl: string;
  readonly sandboxUrl: string | undefined;
  readonly domain: string;
  /** A secret. Absent when requests need no key. */
  readonly apiKey: string | undefined;
  /** The authority of a certificate that was made here. */
  readonly trust?: Pick<DevCertificate, "caFile" | "bundleFile"> | undefined;
}

/** Hosts that clients must not reach through a web proxy. */
const LOCAL_HOSTS = ["localhost", "127.0.0.1", "::1", ".localhost"];

/** The SDKs' variables. The caller's own proxy exceptions are kept. */
export function sdkEnvironment(at: SdkEndpoints, env: Env): SdkEnvironment {
  const variables: Record<string, string> = { E2B_API_URL: at.apiUrl };
  if (at.sandboxUrl !== undefined) variables["E2B_SANDBOX_URL"] = at.sandboxUrl;
  // The SDKs ask for a key even where the server does not.
  variables["E2B_API_KEY"] = at.apiKey ?? `e2b_${"0".repeat(40)}`;
  variables["E2B_DOMAIN"] = at.domain;
  if (at.trust !== undefined) {
    // Node adds this file to what it trusts; the other programs take theirs instead of the machine's.
    const own = env["NODE_EXTRA_CA_CERTS"] ?? "";
    variables["NODE_EXTRA_CA_CERTS"] = own === "" || own === at.trust.caFile ? at.trust.caFile : at.trust.bundleFile;
    variables["SSL_CERT_FILE"] = at.trust.bundleFile;
  }
  for (const name of ["NO_PROXY", "no_proxy"]) {
    const own = (env[name] ?? "").split(",").filter((host) => host.trim() !== "");
    variables[name] = [...new Set([...own, ...LOCAL_HOSTS])].join(",");
  }
  return variables;
}

/** The variables as a dotenv file. */
export function dotenv(variables: SdkEnvironment): string {
  return Object.entries(variables)
    .map(([name, value]) => `${name}=${value}\n`)
    .join("");
}

/** Writes a file that only this user may read. Readers see the old content or the new one, never a part. */
export async function writeEnvFile(path: string, variables: SdkEnvironment): Promise<void> {
  const draft = `${path}.${randomBytes(6).toString("hex")}`;
  try {
    await writeFile(draft, dotenv(variables), { mode: 0o600, flag: "wx" });
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw new Error(
      `write the environment file ${JSON.stringify(path)}: ${error instanceof Error ? error.message : "failed"}`,
      {
        cause: error,
      },
    );
  }
}
