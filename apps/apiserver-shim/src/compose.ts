import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Flags as E2bFlags } from "@org/e2bcompat";

/** What the program is configured with. */
export interface ShimConfig {
  readonly e2b: E2bFlags;
  /** Age, against the fleet's newest, at which a node's inventory counts for nothing. */
  readonly staleAfterMs: number;
}

/** Where a cluster's configuration may be, in the order of preference. */
export interface ClusterPlaces {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The user's home folder. */
  readonly home: string;
  /** Folder of the pod's service account. */
  readonly serviceAccount: string;
}

/** Folder of a pod's service account. */
export const SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";

/**
 * Says where the configuration of a cluster is: `KUBECONFIG`, then the pod's service account, then `~/.kube/config`.
 * @throws when there is none; the message says what to set
 */
export function findCluster({ env, home, serviceAccount }: ClusterPlaces): string {
  const listed = (env["KUBECONFIG"] ?? "").split(":").filter((path) => path !== "");
  const [kubeconfig] = listed.filter((path) => existsSync(path));
  if (kubeconfig !== undefined) return `KUBECONFIG ${kubeconfig}`;
  if (listed.length > 0) {
    throw new Error(`KUBECONFIG names no file that exists (${listed.join(", ")}): set it to a kubeconfig`);
  }
  const host = env["KUBERNETES_SERVICE_HOST"] ?? "";
  if (host !== "" && existsSync(join(serviceAccount, "token"))) return `the service account of this pod (${host})`;
  const file = join(home, ".kube", "config");
  if (existsSync(file)) return file;
  throw new Error(
    "no Kubernetes cluster is configured: set KUBECONFIG to a kubeconfig, run in a pod with a service account, or create ~/.kube/config",
  );
}

/**
 * Refuses to serve. This version has the inventory rules of the cluster side and no API server.
 * @throws always, naming the cluster configuration that was found, or what to set when there is none
 */
export function refuse(places: ClusterPlaces): never {
  const found = findCluster(places);
  throw new Error(
    `found a cluster in ${found}, but serving the aggregated API is not part of this version: run sandbox-e2b over the nodes' own mesh`,
  );
}
