import { randomBytes } from "node:crypto";
import type { KubeClient } from "@org/kubeinventory/client";
import type { LeaseName } from "./lease.ts";

/**
 * Records an Event about the Lease beside it, for `kubectl get events`. The driver's role reaches no other namespace.
 * @throws KubeError
 */
export async function recordLeadership(
  client: Pick<KubeClient, "request">,
  { namespace, name }: LeaseName,
  message: string,
  at: Date,
  signal: AbortSignal,
): Promise<void> {
  const time = `${at.toISOString().slice(0, 19)}Z`;
  await client.request({
    method: "POST",
    path: `/api/v1/namespaces/${encodeURIComponent(namespace)}/events`,
    body: {
      apiVersion: "v1",
      kind: "Event",
      metadata: { name: `${name}.${randomBytes(8).toString("hex")}`, namespace },
      involvedObject: { apiVersion: "coordination.k8s.io/v1", kind: "Lease", namespace, name },
      reason: "LeaderElection",
      message,
      type: "Normal",
      source: { component: "warm-pool-driver" },
      firstTimestamp: time,
      lastTimestamp: time,
      count: 1,
    },
    signal,
  });
}
