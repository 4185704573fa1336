import { spawn } from "node:child_process";
import type { ExecConfig } from "./cluster-config.ts";
import { errorText, KubeError, oneLine, record } from "./errors.ts";

/** What a plugin handed out. */
export interface ExecCredential {
  readonly token?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  /** Milliseconds since the epoch; absent holds until the server refuses it. */
  readonly expiresAtMs?: number | undefined;
}

/** What a plugin is told about the cluster. */
export interface ExecCluster {
  readonly server: string;
  readonly ca?: string | undefined;
  readonly tlsServerName?: string | undefined;
  readonly insecure?: boolean | undefined;
  readonly proxyUrl?: string | undefined;
}

const OUTPUT_CAP = 1024 * 1024;
const TIMEOUT_MS = 60_000;

/**
 * Runs an exec plugin once. It gets no terminal and a minute at most.
 * @throws KubeError `credentials`; the message holds what the plugin wrote to stderr and nothing of its output.
 */
export async function runExecPlugin(exec: ExecConfig, cluster: ExecCluster): Promise<ExecCredential> {
  const label = `exec plugin ${exec.command}`;
  const output = await run(exec, label, info(exec, cluster));
  let value: unknown;
  try {
    value = JSON.parse(output);
  } catch {
    throw new KubeError("credentials", `${label}: its output is no JSON`);
  }
  const { apiVersion, kind, status } = record(value);
  if (kind !== "ExecCredential" || apiVersion !== exec.apiVersion) {
    throw new KubeError("credentials", `${label}: its output is no ExecCredential of ${exec.apiVersion}`);
  }
  const { token, clientCertificateData: cert, clientKeyData: key, expirationTimestamp } = record(status);
  const credential = { token: text(token), cert: text(cert), key: text(key) };
  if ((credential.cert === undefined) !== (credential.key === undefined)) {
    throw new KubeError("credentials", `${label}: it gave a client certificate or its key, and not both`);
  }
  if (credential.token === undefined && credential.cert === undefined) {
    throw new KubeError("credentials", `${label}: it gave neither a token nor a client certificate`);
  }
  const expiresAtMs = typeof expirationTimestamp === "string" ? Date.parse(expirationTimestamp) : Number.NaN;
  return Number.isNaN(expiresAtMs) ? credential : { ...credential, expiresAtMs };
}

function info({ apiVersion, provideClusterInfo }: ExecConfig, cluster: ExecCluster): string {
  const about = {
    server: cluster.server,
    "tls-server-name": cluster.tlsServerName,
    "insecure-skip-tls-verify": cluster.insecure || undefined,
    "certificate-authority-data": cluster.ca && Buffer.from(cluster.ca).toString("base64"),
    "proxy-url": cluster.proxyUrl,
  };
  const spec = { interactive: false, cluster: provideClusterInfo ? about : undefined };
  return JSON.stringify({ kind: "ExecCredential", apiVersion, spec });
}

function run(exec: ExecConfig, label: string, execInfo: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const child = spawn(exec.command, exec.args, {
    env: { ...exec.env, KUBERNETES_EXEC_INFO: execInfo },
    stdio: ["ignore", "pipe", "pipe"],
    // A group of its own, so that what the program starts ends with it.
    detached: true,
  });
  const output: Buffer[] = [];
  let length = 0;
  let complaint = "";
  const giveUp = (why: string): void => {
    reject(new KubeError("credentials", `${label}: ${why}`));
    killGroup(child.pid);
    child.stdout.destroy();
    child.stderr.destroy();
  };
  const timer = setTimeout(giveUp, TIMEOUT_MS, `no answer within ${TIMEOUT_MS / 1000} s`);
  child.stdout.on("error", reject).on("data", (chunk: Buffer) => {
    length += chunk.length;
    output.push(chunk);
    if (length > OUTPUT_CAP) {
      giveUp(`its output is over ${OUTPUT_CAP} bytes`);
    }
  });
  child.stderr.on("error", reject).on("data", (chunk: Buffer) => {
    complaint = (complaint + chunk.toString("utf8")).slice(-4096);
  });
  child.on("error", (cause) => {
    const hint = exec.installHint === undefined ? "" : `: ${oneLine(exec.installHint)}`;
    reject(new KubeError("credentials", `${label} cannot be run: ${errorText(cause)}${hint}`, { cause }));
  });
  child.on("close", (status, signal) => {
    if (status === 0) {
      resolve(Buffer.concat(output).toString("utf8"));
    } else {
      const end = signal === null ? `status ${status}` : `signal ${signal}`;
      reject(new KubeError("credentials", `${label} ended with ${end}: ${oneLine(complaint)}`));
    }
  });
  return promise.finally(() => clearTimeout(timer));
}

function killGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) {
      process.kill(-pid, "SIGKILL");
    }
  } catch {
    // It ended by itself.
  }
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
