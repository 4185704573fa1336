import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { KubeClient, loadClusterConfig } from "@org/kubeinventory/client";
import type { Logger } from "@org/scale";

/** Where clusters are configured. */
export interface ClusterPlaces {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The user's home folder. */
  readonly home: string;
  /** Folder of the pod's service account. */
  readonly serviceAccount: string;
}

/** Folder of a pod's service account. */
export const SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";

const USER_AGENT = "apiserver-shim";
const DEFAULT_NAMESPACE = "sandbox-system";

/** Connects to the cluster of `KUBECONFIG`, else of the pod, else of `~/.kube/config`. @throws KubeError that says what to set */
export async function connectCluster(places: ClusterPlaces, logger: Logger): Promise<KubeClient> {
  return KubeClient.connect(await loadClusterConfig(places), { userAgent: USER_AGENT, logger });
}

/**
 * Connects to the cluster that reviews are asked of: that of the kubeconfig, else the pod's. `undefined` when there is
 * neither.
 * @throws KubeError for a kubeconfig that cannot be used
 */
export async function connectReviewer(
  kubeconfig: string,
  { env, serviceAccount }: ClusterPlaces,
  logger: Logger,
): Promise<KubeClient | undefined> {
  const isPod = (env["KUBERNETES_SERVICE_HOST"] ?? "") !== "";
  if (kubeconfig === "" && !isPod) return undefined;
  const config =
    kubeconfig === ""
      ? await loadClusterConfig({ env: { ...env, KUBECONFIG: undefined }, serviceAccount })
      : await loadClusterConfig({ env, kubeconfig });
  return KubeClient.connect(config, { userAgent: USER_AGENT, logger });
}

/** The namespace that this runs in. */
export async function ownNamespace({ serviceAccount }: ClusterPlaces): Promise<string> {
  const text = await readFile(join(serviceAccount, "namespace"), "utf8").catch(() => "");
  return text.trim() || DEFAULT_NAMESPACE;
}
