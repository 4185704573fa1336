/** What a pod template asks of nodes: the pool of a claim, and of the sandboxes kept warm for it. */
export { NET_ANNOTATION, poolKeyOf } from "./pod-pool.ts";
export type { PodPool } from "./pod-pool.ts";
