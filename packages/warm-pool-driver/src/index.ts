/**
 * Sets the warm pools of nodes from the `SandboxWarmPool` objects of a cluster, by one leader at a time.
 */
export {};
