/**
 * Sets the warm pools of nodes from the `SandboxWarmPool` objects of a cluster, by one leader at a time, and reports on
 * the objects what is warm. `LeaderElection` is the Lease protocol below it.
 */
export { runWarmPoolDriver } from "./driver.ts";
export type { WarmPoolDriverOptions } from "./driver.ts";
export { LeaderElection } from "./leader-election.ts";
export type { Leadership, LeaderElectionOptions } from "./leader-election.ts";
export type { LeaseName } from "./lease.ts";
export type { NodeAccess } from "./node-pools.ts";
