/**
 * A small client of the Kubernetes API: finding a cluster's configuration, requests with credentials that renew
 * themselves, and following a resource through every trouble. It knows no resource of its own.
 */
export type { ClusterConfig, ExecConfig, Material, UserConfig } from "./cluster-config.ts";
export { errorText, KubeError } from "./errors.ts";
export type { KubeErrorCode, KubeErrorDetails } from "./errors.ts";
export { KubeClient } from "./kube-client.ts";
export type { KubeClientOptions, KubeRequest, KubeStream } from "./kube-client.ts";
export { loadClusterConfig } from "./load-cluster-config.ts";
export type { LoadClusterOptions } from "./load-cluster-config.ts";
export { Reflector } from "./reflector.ts";
export type { KubeChanges, KubeResource, ReflectorOptions, ReflectorStatus } from "./reflector.ts";
export { pause, realTiming } from "./timing.ts";
export type { Timing } from "./timing.ts";
export type { KubeObject } from "./watch-event.ts";
