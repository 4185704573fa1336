import type { PoolKey } from "@org/scale";
import { createSandboxdClient, type NodePool } from "@org/sandboxd-client";
import type { PoolTarget } from "./node-targets.ts";

/** How nodes are reached. */
export interface NodeAccess {
  /** Connections to nodes. Stay open. */
  readonly pool: NodePool;
  /** The nodes' operator token. With an empty one no pools are set. */
  readonly token: string;
}

/** How many sandboxes of a pool are warm on one node. */
export interface WarmPoolCount {
  readonly key: PoolKey;
  readonly warm: number;
}

/** Sets the pools of the node at this address; resolves with what the node has then. */
export type SetPools = (
  address: string,
  pools: readonly PoolTarget[],
  options: { readonly signal: AbortSignal },
) => Promise<readonly WarmPoolCount[]>;

const PUT_TIMEOUT_MS = 10_000;

/** Sets pools over the nodes' own API; `undefined` without a token. */
export function setPoolsOver({ pool, token }: NodeAccess): SetPools | undefined {
  if (token === "") {
    return undefined;
  }
  return async (address, pools, { signal }) => {
    const client = createSandboxdClient({ address, token, pool, requestTimeoutMs: PUT_TIMEOUT_MS });
    return (await client.setPools(pools, { signal })).pools;
  };
}
