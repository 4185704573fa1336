import { readFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import type { ClusterConfig } from "./cluster-config.ts";
import { errorText, KubeError } from "./errors.ts";
import { readKubeconfig, readServer, type KubeconfigFile } from "./kubeconfig.ts";

/** Where the configuration of a cluster may be, and what is taken of it. */
export interface LoadClusterOptions {
  /** The program's environment: `KUBECONFIG`, `KUBERNETES_SERVICE_HOST` and `_PORT` are read, exec plugins get all. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The user's home folder. Absent: no `.kube/config` is looked for. */
  readonly home?: string | undefined;
  /** This kubeconfig and nothing else. */
  readonly kubeconfig?: string | undefined;
  /** The context of a kubeconfig. @default its `current-context` */
  readonly context?: string | undefined;
  /** Folder of the pod's service account. @default /var/run/secrets/kubernetes.io/serviceaccount */
  readonly serviceAccount?: string | undefined;
  /**
   * Accept a kubeconfig that turns the check of the server's certificate off. Anybody on the way can then take its
   * credentials; the client warns about it in the log. @default false
   */
  readonly allowInsecure?: boolean | undefined;
}

const SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";

/**
 * Finds the configuration of a cluster: the `kubeconfig` option, `KUBECONFIG`, the pod's service account,
 * `.kube/config` in the home folder.
 * @throws KubeError `config` when there is none, or the first that is there cannot be used.
 */
export async function loadClusterConfig(options: LoadClusterOptions): Promise<ClusterConfig> {
  const { env, home, kubeconfig } = options;
  if (kubeconfig !== undefined) {
    return fromFiles([kubeconfig], "kubeconfig", options);
  }
  const listed = (env["KUBECONFIG"] ?? "").split(delimiter).filter((path) => path !== "");
  if (listed.length > 0) {
    return fromFiles(listed, "KUBECONFIG", options);
  }
  const host = env["KUBERNETES_SERVICE_HOST"] ?? "";
  if (host !== "") {
    return inCluster(host, options);
  }
  const file = home === undefined ? undefined : join(home, ".kube", "config");
  const own = file === undefined ? undefined : await readIfThere(file);
  if (own !== undefined) {
    return readKubeconfig([own], readOptions(options));
  }
  throw new KubeError(
    "config",
    "no Kubernetes cluster is configured: set KUBECONFIG to a kubeconfig, run in a pod with a service account, or " +
      "create ~/.kube/config",
  );
}

async function fromFiles(paths: readonly string[], label: string, options: LoadClusterOptions): Promise<ClusterConfig> {
  const files = (await Promise.all(paths.map(readIfThere))).filter((file) => file !== undefined);
  if (files.length === 0) {
    throw new KubeError("config", `${label} names no file that exists (${paths.join(", ")})`);
  }
  return readKubeconfig(files, readOptions(options));
}

function readOptions({
  env,
  context,
  allowInsecure = false,
}: LoadClusterOptions): Parameters<typeof readKubeconfig>[1] {
  return { env, context, allowInsecure };
}

async function inCluster(host: string, options: LoadClusterOptions): Promise<ClusterConfig> {
  const { env, serviceAccount = SERVICE_ACCOUNT } = options;
  const port = env["KUBERNETES_SERVICE_PORT"] || "443";
  const label = `the service account of this pod in ${serviceAccount}`;
  const token = join(serviceAccount, "token");
  if ((await readIfThere(token)) === undefined) {
    throw new KubeError("config", `KUBERNETES_SERVICE_HOST is set, but there is no ${token}`);
  }
  const ca = join(serviceAccount, "ca.crt");
  const namespace = await readIfThere(join(serviceAccount, "namespace"));
  return {
    source: label,
    server: readServer(`https://${host.includes(":") && !host.startsWith("[") ? `[${host}]` : host}:${port}`, label),
    namespace: namespace?.text.trim() || "default",
    ca: (await readIfThere(ca)) === undefined ? undefined : { file: ca },
    user: { token: { file: token } },
  };
}

async function readIfThere(path: string): Promise<KubeconfigFile | undefined> {
  try {
    return { path, text: await readFile(path, "utf8") };
  } catch (cause) {
    if (cause instanceof Error && "code" in cause && (cause.code === "ENOENT" || cause.code === "ENOTDIR")) {
      return undefined;
    }
    throw new KubeError("config", `cannot read ${path}: ${errorText(cause)}`, { cause });
  }
}
